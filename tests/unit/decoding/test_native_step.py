"""A small trained model decodes to the same hypotheses with the native step and without it, in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.decoding.mock_model import Prefix, batch_of
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.decoding.hypothesis import Hypothesis
from dikkat.decoding.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat.decoding.stepper import BOS, EOS, PAD
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.token_stream import token_stream
from dikkat.models import native_decoding
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.models.native_decoding import NativeCache
from dikkat.native.library import library, why_absent

pytestmark = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")

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
    return [(*map(int, generator.integers(3, VOCABULARY, size=length)), EOS) for length in lengths]


def learned(**settings: Any) -> EncoderDecoder:
    """A model that half knows how to say a sequence backwards: sure enough to end, not so sure as to have no rivals."""
    config = ModelConfig(
        vocab_size=VOCABULARY, model_dim=32, num_heads=2, feed_forward_dim=64, encoder_layers=1, decoder_layers=2,
        dropout=0.0, **settings,
    )  # fmt: skip
    model = build_model(config, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    for update in range(120):
        rows = sentences(1000 + update)
        source, mask = batch_of(rows)
        target, _ = batch_of([(BOS, *row[-2::-1], EOS) for row in rows])
        logits = model(source, target[:, :-1], mask)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    torch.manual_seed(0)
    return learned(**KINDS[request.param])


def decoded(
    model: EncoderDecoder, rows: Sequence[Prefix], options: DecodingOptions, size: int
) -> list[list[Hypothesis]]:
    decode = batch_decoder(model, options)
    found = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        found += decode(*batch_of(part), range(start, start + len(part)))
    return found


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.finished for each in ours] == [each.finished for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)


def test_the_model_has_something_to_say(model: EncoderDecoder) -> None:
    """Otherwise what follows would compare noise with noise, or one sentence with itself."""
    found = decoded(model, sentences(1), DecodingOptions(), SENTENCES)
    assert len({best.tokens for (best,) in found}) > SENTENCES // 2
    assert sum(best.finished for (best,) in found) > SENTENCES // 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 7, SENTENCES])
def test_both_paths_write_the_same(model: EncoderDecoder, way: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sentences(1)[: 20 if size == 1 else SENTENCES]
    steps, step = count(), NativeCache.step

    def counted(self: NativeCache, tokens: Tensor) -> Tensor:
        next(steps)
        return step(self, tokens)

    monkeypatch.setattr(NativeCache, "step", counted)
    native = decoded(model, rows, WAYS[way], size)
    taken = next(steps)
    monkeypatch.setattr(native_decoding, "can_step", lambda: False)
    assert_same(decoded(model, rows, WAYS[way], size), native)
    assert taken > 0
    assert next(steps) == taken + 1, "the second time was not PyTorch's"


@pytest.mark.parametrize("way", WAYS)
def test_the_batch_changes_nothing(model: EncoderDecoder, way: str) -> None:
    rows = sentences(2)
    together = decoded(model, rows, WAYS[way], SENTENCES)
    for size in (1, 7):
        assert_same(decoded(model, rows, WAYS[way], size), together)


def test_a_sentence_that_is_shown_while_it_is_written(model: EncoderDecoder) -> None:
    for row in sentences(3)[:10]:
        source, mask = batch_of([row])
        ((best,),) = decoded(model, [row], DecodingOptions(), 1)
        assert tuple(token_stream(model, source, mask, DecodingOptions())) == best.tokens
