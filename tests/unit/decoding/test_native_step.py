"""A small trained model decodes to the same hypotheses with the native step and without it, in any batch."""

from __future__ import annotations

from itertools import count

import pytest
import torch
from tests.unit.decoding.mock_model import batch_of
from tests.unit.decoding.reversing import KINDS, SENTENCES, WAYS, decoded, learned, sentences
from torch import Tensor

from dikkat.decoding.token_stream import token_stream
from dikkat.models import native_decoding
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.native_decoding import NativeCache
from dikkat.native.library import library, why_absent
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import DecodingOptions

pytestmark = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    torch.manual_seed(0)
    return learned(**KINDS[request.param])


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
    monkeypatch.setattr(EncoderDecoder, "search", lambda *_: None)
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
