"""Work that waits for the engine: segments with their requests."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Task(Protocol):
    """A task computes results of segments; equal tasks share a batch."""

    def __hash__(self) -> int:
        """Return the same number for tasks that share a batch."""

    @property
    def rate_key(self) -> Hashable:
        """A key that is equal for tasks of about the same speed, without data of one request."""

    def run(self, items: Sequence[Any]) -> list[Any]:
        """Return one result for each item."""


class Ticket:
    """The segments of one request, their results so far, and whether anybody still waits for them."""

    __slots__ = ("_left", "_results", "future", "is_cancelled", "waiting_segments", "waiting_tokens")

    def __init__(self, count: int) -> None:
        """Wait for `count` segments, at least one; made in the event loop, where `future` is awaited."""
        self.future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._results: list[Any] = [None] * count
        self._left, self.is_cancelled = count, False
        self.waiting_segments, self.waiting_tokens = 0, 0

    def deliver(self, index: int, result: Any) -> None:
        """Store one result, or the exception raised instead; in the event loop."""
        if self.future.done():
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
            return
        self._results[index] = result
        self._left -= 1
        if not self._left:
            self.future.set_result(self._results)


@dataclass(slots=True)
class Segment:
    """One item in the queue."""

    ticket: Ticket
    index: int
    """Index of the segment in its request."""
    item: Any
    """The input of its task: a text, or a text and its translation."""
    tokens: int
    order: int
    """A number that rises with each segment of the queue."""
    since: float
    """Time of arrival, in seconds of the queue's clock."""


@dataclass(slots=True)
class Batch:
    """Segments that are computed together."""

    task: Task
    segments: list[Segment]

    @property
    def tokens(self) -> int:
        """Number of source tokens, without padding."""
        return sum(segment.tokens for segment in self.segments)
