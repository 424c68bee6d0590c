"""The queue of segments: whose turn it is, what shares a batch, and when nothing more is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import Batch, SegmentQueue, Ticket
from dikkat_runtime.server.settings import Limits


@dataclass(frozen=True)
class Named:
    """A task that only has a name."""

    name: str

    @property
    def batch_key(self) -> str:
        return self.name[0]

    def run(self, items: Sequence[str], tasks: Sequence[Named]) -> list[Any]:
        return [task.name + item for item, task in zip(items, tasks, strict=True)]


A, B = Named("a"), Named("b")


@dataclass
class Waiting:
    """A queue with a clock that is set by hand."""

    now: float = 0.0

    def __post_init__(self) -> None:
        limits = Limits(batch_tokens=40, interactive_segments=2, ageing_seconds=1.0, wait_seconds=5.0)
        self.queue = SegmentQueue(limits, lambda: self.now)

    def put(self, task: Named, texts: str, tokens: int = 10) -> Ticket:
        """Each letter is a segment."""
        ticket = Ticket(len(texts))
        self.queue.put(task, ticket, list(texts), [tokens] * len(texts))
        return ticket

    def taken(self) -> str:
        """The letters of the next batch."""
        with self.queue.changed:
            batch = self.queue.take()
        return "".join(segment.item for segment in batch.segments) if batch else ""


def in_loop(test: Callable[[Waiting], None]) -> Callable[[], None]:
    """A test that needs a running event loop, for the futures of its tickets."""

    def run() -> None:
        async def body() -> None:
            test(Waiting())

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
def test_all_that_waits_is_taken_at_once_up_to_the_budget(waiting: Waiting) -> None:
    for letter in "abcdef":
        waiting.put(A, letter)
    assert [waiting.taken(), waiting.taken(), waiting.taken()] == ["abcd", "ef", ""]


@in_loop
def test_padding_counts_and_a_segment_beyond_the_budget_goes_alone(waiting: Waiting) -> None:
    waiting.put(A, "a", tokens=5)
    waiting.put(A, "b", tokens=20)
    waiting.put(A, "c", tokens=5)
    waiting.put(A, "d", tokens=100)
    assert [waiting.taken(), waiting.taken(), waiting.taken()] == ["ab", "c", "d"]


@in_loop
def test_other_tasks_have_their_own_batch_the_oldest_first(waiting: Waiting) -> None:
    waiting.put(A, "a")
    waiting.put(B, "b")
    waiting.put(A, "c")
    assert [waiting.taken(), waiting.taken()] == ["ac", "b"]


@in_loop
def test_tasks_of_one_key_share_a_batch_in_which_each_segment_keeps_its_own(waiting: Waiting) -> None:
    for name, letter in (("a1", "x"), ("b", "y"), ("a2", "z")):
        waiting.put(Named(name), letter)
    with waiting.queue.changed:
        batch, other = waiting.queue.take(), waiting.queue.take()
    assert batch is not None
    assert batch.run() == ["a1x", "a2z"]
    assert other is not None
    assert other.run() == ["by"]


@in_loop
def test_bulk_waits_for_interactive_work_until_it_is_old(waiting: Waiting) -> None:
    waiting.put(A, "LMNOPQ")
    waiting.put(A, "a")
    assert waiting.taken() == "aLMN"
    waiting.put(B, "b")
    assert waiting.taken() == "b"
    waiting.now = 1.0
    waiting.put(B, "c")
    assert [waiting.taken(), waiting.taken()] == ["OPQ", "c"]


@in_loop
def test_the_work_of_a_client_that_left_is_dropped_and_no_longer_counted(waiting: Waiting) -> None:
    gone, stays = waiting.put(A, "LMNOPQ"), waiting.put(A, "a")
    seconds = waiting.queue.estimated_seconds
    waiting.queue.cancel(A, gone)
    assert waiting.queue.segments == 1
    assert waiting.queue.estimated_seconds == pytest.approx(seconds / 7)
    assert [waiting.taken(), waiting.taken()] == ["a", ""]
    waiting.queue.cancel(A, stays)
    assert waiting.queue.segments == 0


@in_loop
def test_more_than_the_limit_of_estimated_seconds_is_turned_away(waiting: Waiting) -> None:
    waiting.put(A, "ab")
    with waiting.queue.changed:
        batch = waiting.queue.take()
    assert isinstance(batch, Batch)
    waiting.queue.measured(batch, seconds=2.0)  # 0.1 s a token
    waiting.put(A, "abcde")
    waiting.queue.check()
    waiting.put(A, "f")
    with pytest.raises(RequestError) as raised:
        waiting.queue.check()
    assert raised.value.kind == "overloaded"
    assert raised.value.retry_after == pytest.approx(6.0)


@in_loop
def test_a_ticket_is_done_with_its_last_segment_or_the_first_error(waiting: Waiting) -> None:
    ticket = Ticket(2)
    ticket.deliver(1, "b")
    assert not ticket.future.done()
    ticket.deliver(0, "a")
    assert ticket.future.result() == ["a", "b"]
    failed = Ticket(2)
    failed.deliver(0, ValueError("bad"))
    failed.deliver(1, "b")
    assert isinstance(failed.future.exception(), ValueError)
