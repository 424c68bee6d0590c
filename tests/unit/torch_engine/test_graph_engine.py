"""Search in fixed buffers writes what the torch engine writes, whatever the settings of the model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.graph_engine import GraphEngine
from dikkat.torch_engine.static_decoder import why_not_static
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.special_tokens import EOS_ID

VOCABULARY = 150
OPTIONS = [
    DecodingOptions(max_length_factor=1.0),
    DecodingOptions(max_length_factor=1.0, scores=False),
    BeamOptions(beam_size=4, max_length_factor=1.0),
    BeamOptions(beam_size=3, n_best=3, max_length_factor=0.5, max_length_offset=3, length_penalty=0.3),
    BeamOptions(beam_size=2, n_best=2, thorough=True, max_length_factor=1.0),
]
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm, rms, gated": {"norm_placement": "pre", "norm": "rms", "activation": "swiglu"},
    "rotary, groups": {"positions": "rotary", "num_kv_heads": 2, "norm_placement": "pre"},
    "learned, one group": {"positions": "learned", "max_positions": 64, "num_kv_heads": 1, "embedding_norm": True},
    "window": {"positions": "none", "attention_window": 3, "global_tokens": 1},
    "positions in every layer": {"positions_in_every_layer": True, "inverse_temperature": 0.5},
    "recurrent": {"decoder_memory": "ssru", "output_bias": True, "tie_embeddings": False},
}
REFUSED = {
    "alibi": {"positions": "alibi"},
    "distances": {"positions": "relative"},
    "additive": {"score": "additive"},
    "argmax": {"selection": "argmax"},
}


def model_of(settings: dict[str, Any]) -> EncoderDecoder:
    """Random weights, which end sentences early and late."""
    config = ModelConfig(
        vocab_size=VOCABULARY, model_dim=32, num_heads=4, feed_forward_dim=48, encoder_layers=1, decoder_layers=2
    )
    model = build_model(config.model_copy(update={"dropout": 0.0, **settings}), 5).eval()
    with torch.no_grad():
        # so that a sentence depends on its source, and its end is neither likely nor unlikely
        for block in model.decoder.blocks:
            block.cross_attention.out_projection.weight *= 3
        model.output_weight *= 1.5
    return model


@cache
def sources(count: int = 60, longest: int = 22) -> list[list[int]]:
    """Random ids of random lengths, one of them without any."""
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, longest, size=count)
    lengths[7] = 0
    return [generator.integers(EOS_ID + 1, VOCABULARY, size=length).tolist() for length in lengths]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_it_writes_what_the_torch_engine_writes(settings: dict[str, Any]) -> None:
    reference, engine = TorchEngine(model_of(settings)), GraphEngine(model_of(settings))
    ended = set()
    for options in OPTIONS:
        expected = search_all(reference, sources(), options, batch_size=40)
        result = search_all(engine, sources(), options, batch_size=40)
        for one, other in zip(result, expected, strict=True):
            assert [(item.tokens, item.finished) for item in one] == [(item.tokens, item.finished) for item in other]
            for name in ("score", "log_probability"):
                values = ([getattr(item, name) for item in hypotheses] for hypotheses in (one, other))
                assert next(values) == pytest.approx(next(values), abs=1e-4, nan_ok=True)
            ended |= {item.finished for item in one}
    assert ended == {False, True}


@pytest.mark.parametrize("settings", REFUSED.values(), ids=REFUSED)
def test_it_refuses_what_it_cannot_compute(settings: dict[str, Any]) -> None:
    assert "attention has" in why_not_static(model_of(settings))
