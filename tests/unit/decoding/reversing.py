"""A small model that was trained to say sequences backwards, and what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch
from tests.unit.decoding.mock_model import Prefix, batch_of
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.torch_engine.strategies import batch_decoder
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

VOCABULARY, SENTENCES = 20, 80
WAYS: dict[str, DecodingOptions] = {
    "greedy": DecodingOptions(),
    "beam": BeamOptions(beam_size=5),
    "n-best": BeamOptions(beam_size=4, n_best=4, length_penalty=0.6),
    "sampling": SamplingOptions(temperature=0.8, top_k=5, seed=3),
}
KINDS: dict[str, dict[str, Any]] = {
    "pre": {"norm_placement": "pre"},
    "post": {"norm_placement": "post", "activation": "gelu"},
}


def sentences(seed: int) -> list[Prefix]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, 11, size=SENTENCES)
    return [(*map(int, generator.integers(3, VOCABULARY, size=length)), EOS_ID) for length in lengths]


def learned(**settings: Any) -> EncoderDecoder:
    """A model that half knows how to say a sequence backwards: sure enough to end, not so sure as to have no rivals."""
    return deepcopy(_learned(**settings))


@cache
def _learned(**settings: Any) -> EncoderDecoder:
    config = ModelConfig(
        vocab_size=VOCABULARY, model_dim=32, num_heads=2, feed_forward_dim=64, encoder_layers=1, decoder_layers=2,
        dropout=0.0, **settings,
    )  # fmt: skip
    model = build_model(config, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    for update in range(120):
        rows = sentences(1000 + update)
        source, mask = batch_of(rows)
        target, _ = batch_of([(BOS_ID, *row[-2::-1], EOS_ID) for row in rows])
        logits = model(source, target[:, :-1], mask)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def decoded(
    model: EncoderDecoder, rows: Sequence[Prefix], options: DecodingOptions, size: int
) -> list[list[Hypothesis]]:
    decode = batch_decoder(model, options)
    result = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        result += decode(*batch_of(part), range(start, start + len(part)))
    return result
