"""A search in one native call finds what the same native steps find one by one, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.unit.decoding.mock_model import Prefix
from tests.unit.decoding.reversing import KINDS, SENTENCES, VOCABULARY, decoded, learned, sentences

from dikkat.decoding.beam import beam_search
from dikkat.decoding.stepper import EOS
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import decode_stream
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.native_decoding import STRETCH, NativeCache
from dikkat.native.decoder import FIRST_CAPACITY
from dikkat.native.library import library, why_absent
from dikkat.nn.learned_positions import BeyondPositionsError
from dikkat.nn.recorder import record_attention
from dikkat_runtime.engine.contract import EMPTY, Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions

pytestmark = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")

SHORT: dict[str, Any] = {"max_length_factor": 0.5, "max_length_offset": 2}
WAYS: dict[str, DecodingOptions] = {
    "greedy": DecodingOptions(),
    "greedy, cut": DecodingOptions(**SHORT),
    "beam of one": BeamOptions(beam_size=1),
    "beam": BeamOptions(beam_size=5),
    "beam, cut": BeamOptions(beam_size=3, n_best=3, **SHORT),
    "n-best": BeamOptions(beam_size=4, n_best=4, length_penalty=0.6),
    "n-best of plain probabilities": BeamOptions(beam_size=6, n_best=2, length_penalty=0.0),
    "beam as wide as the vocabulary": BeamOptions(beam_size=VOCABULARY, n_best=VOCABULARY),
}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    torch.manual_seed(0)
    return learned(**KINDS[request.param])


def both(
    model: EncoderDecoder, rows: Sequence[Prefix], options: DecodingOptions, size: int
) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    """Searched, and stepped."""
    with patch.object(NativeCache, "step", side_effect=AssertionError("this was stepped")):
        searched = decoded(model, rows, options, size)
    with patch.object(EncoderDecoder, "search", return_value=None):
        return searched, decoded(model, rows, options, size)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 7, SENTENCES])
def test_the_same_to_the_bit(model: EncoderDecoder, way: str, size: int) -> None:
    searched, stepped = both(model, sentences(1)[: 20 if size == 1 else SENTENCES], WAYS[way], size)
    assert searched == stepped
    finished = [each.finished for found in searched for each in found]
    assert any(finished)
    assert not all(finished) or "cut" not in way


@contextmanager
def threads_at_work(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("in_bytes", [False, True])
def test_threads_change_nothing(threads: int, options: DecodingOptions, in_bytes: bool) -> None:
    """They share each step; in eight bits, where there are many sentences, each searches on with some of them."""
    model = learned()
    if in_bytes:
        model.quantize()
    expected = decoded(model, sentences(2), options, SENTENCES)
    with threads_at_work(threads):
        assert decoded(model, sentences(2), options, SENTENCES) == expected


def endless(model: EncoderDecoder) -> EncoderDecoder:
    """Every logit is 0 but that of the end mark, which is below."""
    norm = model.decoder.final_norm
    assert isinstance(norm, torch.nn.LayerNorm)
    with torch.no_grad():
        norm.weight.zero_()
        norm.bias.copy_(torch.eye(len(norm.bias))[0])
        model.output_weight[:, 0] = 0.0
        model.output_weight[EOS, 0] = -1.0
    return model


@pytest.mark.parametrize("beam_size", [1, 4])
def test_among_equals_both_take_the_same(beam_size: int) -> None:
    """Every sentence goes on to its cap, over several stretches and a cache that grows."""
    model = endless(learned())
    options = BeamOptions(beam_size=beam_size, n_best=beam_size, max_length_factor=0.0, max_length_offset=2 * STRETCH)
    searched, stepped = both(model, sentences(3)[:3], options, 3)
    assert searched == stepped
    assert max(len(each.tokens) for found in searched for each in found) > max(STRETCH, FIRST_CAPACITY)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_sentences_that_are_over_leave_their_rows_to_others(beam_size: int, threads: int) -> None:
    """More of them than there are rows, some of which end long before others."""
    model = endless(learned())
    model.quantize()
    options = BeamOptions(beam_size=beam_size, max_length_factor=16.0, max_length_offset=4)
    with threads_at_work(threads):
        searched, stepped = both(model, sentences(7), options, SENTENCES)
    assert searched == stepped
    lengths = [len(best.tokens) for best, *_ in searched]
    assert min(lengths) < STRETCH < max(lengths)
    assert sum(length > STRETCH for length in lengths) > 8 * threads


@pytest.mark.parametrize("size", [7, SENTENCES])
def test_weights_in_eight_bits(size: int) -> None:
    """All steps of many sentences are one call of `search_apart`."""
    model = learned()
    model.quantize()
    for way in WAYS.values():
        searched, stepped = both(model, sentences(4), way, size)
        assert searched == stepped


@pytest.mark.parametrize("at_once", [2, 3])
@pytest.mark.parametrize("threads", [1, 4])
def test_batches_side_by_side(at_once: int, threads: int) -> None:
    model = learned()
    model.quantize()
    decode = batch_decoder(model, BeamOptions(beam_size=3))
    rows = [row[:-1] for row in sentences(6)]
    with threads_at_work(threads):
        one_by_one = list(decode_stream(rows, decode, [EMPTY], batch_size=11))
        assert list(decode_stream(rows, decode, [EMPTY], batch_size=11, at_once=at_once)) == one_by_one


@pytest.mark.parametrize("in_bytes", [False, True])
def test_at_the_end_of_learned_positions_it_is_refused_as_a_step_would_be(in_bytes: bool) -> None:
    model = endless(learned(positions="learned", max_positions=12))
    if in_bytes:
        model.quantize()
    reached = DecodingOptions(max_length_factor=0.0, max_length_offset=12)
    searched, stepped = both(model, sentences(5), reached, SENTENCES)
    assert searched == stepped
    assert {len(best.tokens) for (best,) in searched} == {12}
    with pytest.raises(BeyondPositionsError, match="reaches 13"):
        decoded(model, sentences(5), replace(reached, max_length_offset=13), SENTENCES)


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3)])
def test_who_reads_the_weights_is_given_those_of_every_step(model: EncoderDecoder, options: DecodingOptions) -> None:
    """Of whoever is still in, in the order of the hypotheses."""
    with record_attention(model) as maps:
        searched, stepped = both(model, sentences(6)[:9], options, 9)
        assert searched == stepped == decoded(model, sentences(6)[:9], options, 9)
    for name, calls in maps.items():
        third = len(calls) // 3
        assert third >= (1 if name.stack == "encoder" else 9)
        for ours, theirs in zip(calls[:third], calls[third : 2 * third], strict=True):
            assert torch.equal(ours, theirs)


def test_who_watches_the_beam_sees_every_step(model: EncoderDecoder) -> None:
    seen: list[int] = []
    source = torch.tensor([[5, 6, 7, EOS]])
    mask = torch.ones_like(source, dtype=torch.bool)
    options = BeamOptions(beam_size=2)
    watched = beam_search(model, source, mask, options, lambda numbers, _: seen.append(len(numbers)))
    assert watched == beam_search(model, source, mask, options)
    assert len(seen) >= len(watched[0][0].tokens)
