"""The stream keeps order, reads no further ahead than its window, and gives what one batch gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Barrier, get_ident
from time import sleep

import pytest
import torch
from tests.unit.decoding.mock_model import MockModel, some_sentences
from torch import Tensor

from dikkat.decoding.stepper import EOS, PAD
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import decode_stream
from dikkat_runtime.engine.contract import EMPTY, Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import UsageError

pytestmark = pytest.mark.usefixtures("either_path")

ALL_OPTIONS = [DecodingOptions(), BeamOptions(beam_size=3, n_best=2), SamplingOptions(seed=5)]


class Echo:
    """A decoder that gives the source back and keeps what it was given."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.numbers: list[int] = []

    def __call__(self, source: Tensor, source_mask: Tensor, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        assert source.dtype == torch.int64
        assert (source == PAD).equal(~source_mask)
        self.shapes.append((source.shape[0], source.shape[1]))
        self.numbers += numbers
        return [[Hypothesis(tuple(row[mask].tolist()), -1.0, -1.0, True)] for row, mask in zip(source, source_mask)]  # noqa: B905


def sources(count: int) -> list[list[int]]:
    """Ids without end marks."""
    return [list(sentence[:-1]) for sentence in some_sentences(count)]


@pytest.mark.parametrize("window", [1, 7, 64, 1000])
def test_order_is_kept_and_every_source_gets_its_end_mark(window: int) -> None:
    echo, sentences = Echo(), sources(150)
    found = list(decode_stream(sentences, echo, [EMPTY], batch_size=16, window=window))
    assert [hypotheses[0].tokens for hypotheses in found] == [(*sentence, EOS) for sentence in sentences]
    assert sorted(echo.numbers) == list(range(150))


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=lambda options: type(options).__name__)
def test_batch_and_window_do_not_change_a_result(options: DecodingOptions) -> None:
    sentences = sources(64)
    results = [
        list(decode_stream(sentences, batch_decoder(MockModel(), options), [EMPTY], batch_size=size, window=window))
        for size, window in ((1, 1), (7, 20), (64, 64))
    ]
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 64


def test_the_strategy_follows_the_options() -> None:
    sentence = sources(1)
    beam, single, drawn = (
        next(decode_stream(sentence, batch_decoder(MockModel(seed=3), options), [EMPTY]))
        for options in (BeamOptions(beam_size=4, n_best=3), BeamOptions(beam_size=1), SamplingOptions(top_k=1))
    )
    greedy = next(decode_stream(sentence, batch_decoder(MockModel(seed=3), DecodingOptions()), [EMPTY]))
    assert len(beam) == 3
    assert single == drawn == greedy


def test_empty_sentences_give_an_empty_result_without_the_model() -> None:
    model = MockModel()
    decode = batch_decoder(model, DecodingOptions())
    assert list(decode_stream([[], []], decode, [EMPTY])) == [[EMPTY], [EMPTY]]
    assert model.sources_seen == []
    mixed: list[list[int]] = [[], [5, 6], [], [7], []]
    found = list(decode_stream(mixed, decode, [EMPTY]))
    assert [hypotheses == [EMPTY] for hypotheses in found] == [True, False, True, False, True]
    assert sorted(model.sources_seen) == [(5, 6, EOS), (7, EOS)]
    assert Hypothesis((), 0.0, 0.0, True) == EMPTY


def test_no_input_gives_no_output() -> None:
    assert list(decode_stream([], Echo(), [EMPTY])) == []


def test_never_more_than_a_window_ahead_of_the_output() -> None:
    read = 0

    def endless() -> Iterator[list[int]]:
        nonlocal read
        while True:
            read += 1
            yield [3 + read % 50]

    stream = decode_stream(endless(), Echo(), [EMPTY], window=10)
    assert read == 0
    for taken, hypotheses in enumerate(stream, start=1):
        assert hypotheses[0].tokens[0] == 3 + taken % 50
        # `taken - 1` are out; what is read beyond them is at most the window
        assert read - (taken - 1) <= 10
        if taken == 95:
            break
    assert read == 100


def test_batches_hold_to_both_limits_and_to_one_length() -> None:
    echo = Echo()
    lengths = [9] * 10 + [1] * 30 + [60] + [4] * 10
    list(decode_stream([[5] * length for length in lengths], echo, [EMPTY], batch_size=12, batch_tokens=40))
    assert echo.shapes[0] == (1, 61)  # longer than a batch: alone
    assert all(rows * width <= 40 for rows, width in echo.shapes[1:])
    assert max(rows for rows, _ in echo.shapes) == 12
    assert sum(rows for rows, _ in echo.shapes) == len(lengths)
    padded = sum(rows * width for rows, width in echo.shapes)
    assert padded <= 1.05 * sum(length + 1 for length in lengths)


@pytest.mark.parametrize("name", ["batch_size", "batch_tokens", "window", "at_once"])
def test_a_limit_below_1_is_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} must be at least 1, not 0$"):
        decode_stream(iter([[3]]), Echo(), [EMPTY], **{name: 0})  # type: ignore[arg-type]


class Meeting:
    """Decodes nothing before another batch is decoded as well."""

    def __init__(self, batches: int) -> None:
        self.barrier = Barrier(batches)
        self.threads: set[int] = set()

    def __call__(self, source: Tensor, source_mask: Tensor, numbers: Sequence[int]) -> list[int]:
        self.barrier.wait(timeout=30)
        self.threads.add(get_ident())
        return list(numbers)


def test_batches_are_decoded_side_by_side_and_their_order_is_kept() -> None:
    meeting, sentences = Meeting(2), sources(64)
    assert list(decode_stream(sentences, meeting, -1, batch_size=16, at_once=2)) == list(range(64))
    assert len(meeting.threads) == 2


def test_after_an_error_no_further_batch_is_begun() -> None:
    begun = []

    def fail(source: Tensor, source_mask: Tensor, numbers: Sequence[int]) -> list[int]:
        begun.append(numbers)
        sleep(0.01)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(decode_stream(sources(640), fail, -1, batch_size=1, at_once=2))
    assert len(begun) < 640


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_how_many_are_decoded_at_once_does_not_change_a_result(at_once: int) -> None:
    sentences, decode = sources(64), batch_decoder(MockModel(), BeamOptions(beam_size=3))
    one_by_one = list(decode_stream(sentences, decode, [EMPTY], batch_size=64))
    assert list(decode_stream(sentences, decode, [EMPTY], batch_size=8, at_once=at_once)) == one_by_one
