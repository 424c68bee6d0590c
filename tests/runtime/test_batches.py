"""Sentences share batches by their lengths, and every sentence gets its own answer in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from dikkat_runtime.engine.contract import PLAIN_SEARCH, EngineInfo, SearchRequest, Steps
from dikkat_runtime.engine.hypotheses import EMPTY, Hypothesis, Memory
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks import batches
from dikkat_runtime.tasks.batches import length_batches, search_all


class CountingEngine:
    """Answers each sentence with its own ids and number."""

    def __init__(self, precision: Precision = "float32", threads: int = 1) -> None:
        self.info = EngineInfo("counting", precision, threads)
        self.batches: list[list[int]] = []
        self.shares: set[int | None] = set()
        self._lock = threading.Lock()

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        with self._lock:
            self.batches.append([len(source) for source in sources])
            self.shares.add(threads)
        width = max(map(len, sources))
        states = np.array([[*source, *[0] * (width - len(source))] for source in sources])
        return Memory(states, tuple(map(len, sources)))

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> Steps:
        raise NotImplementedError("nothing here is searched step by step")

    def search(
        self,
        memory: Memory,
        options: DecodingOptions,
        asked: SearchRequest = PLAIN_SEARCH,
    ) -> list[list[Hypothesis]]:
        assert asked.numbers is not None
        rows = zip(memory.states.tolist(), memory.lengths, asked.numbers, strict=True)
        return [[Hypothesis(tuple(row[:length]), float(number), 0.0, True)] for row, length, number in rows]


SENTENCES = [[9] * length for length in (3, 1, 0, 8, 2, 0, 5, 5, 1)]


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Processors on which nothing else runs: the number in the list, by default enough."""
    number = [64]
    monkeypatch.setattr(batches, "free_threads", lambda threads: min(threads, number[0]))
    return number


def test_a_few_sentences_wake_no_thread_that_has_no_processor(free: list[int]) -> None:
    free[0] = 1
    few, many = CountingEngine(threads=2), CountingEngine(threads=2)
    search_all(few, SENTENCES, DecodingOptions())
    search_all(many, SENTENCES * 2, DecodingOptions())
    assert few.shares == {1}
    assert many.shares == {2}, "a batch gains by whatever time the other processor has"


@pytest.mark.parametrize(("precision", "threads"), [("float32", 1), ("float32", 2), ("int8", 2), ("int8", 3)])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_answers_are_in_the_order_of_the_sentences(precision: Precision, threads: int, batch_size: int) -> None:
    engine = CountingEngine(precision, threads)
    result = search_all(engine, SENTENCES, DecodingOptions(), batch_size=batch_size)
    for number, (sentence, hypotheses) in enumerate(zip(SENTENCES, result, strict=True)):
        expected = EMPTY if not sentence else Hypothesis(tuple(sentence), float(number), 0.0, True)
        assert hypotheses == [expected]
    # in eight bits a thread is alone with a batch, as far as there are so many
    workers = min(threads, -(-7 // batch_size)) if precision == "int8" else 1
    assert engine.shares == {threads // workers}


def test_no_sentence_needs_no_engine() -> None:
    engine = CountingEngine()
    assert search_all(engine, [], DecodingOptions()) == []
    assert search_all(engine, [[], []], DecodingOptions()) == [[EMPTY], [EMPTY]]
    assert engine.batches == []


def test_batches_hold_to_both_limits_and_sentences_of_like_length_share_one() -> None:
    lengths = [3, 9, 0, 4, 4, 30, 1]
    assert list(length_batches(lengths, 2, 100)) == [[5, 1], [3, 4], [0, 6]]
    # the end mark counts: 10 + 10 tokens at most, and a longer sentence goes alone
    assert list(length_batches(lengths, 9, 20)) == [[5], [1, 3], [4, 0, 6]]


@pytest.mark.parametrize("limits", [(0, 10), (10, 0), (-1, 10)])
def test_a_limit_below_1_is_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        list(length_batches([3], *limits))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_whoever_stops_the_work_ends_it_before_a_batch(precision: Precision) -> None:
    engine, begun = CountingEngine(precision, 2), list[int]()

    def stop() -> None:
        begun.append(1)
        if len(begun) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_all(engine, [[5]] * 100, DecodingOptions(), batch_size=1, before_batch=stop)
    assert len(engine.batches) < 50
