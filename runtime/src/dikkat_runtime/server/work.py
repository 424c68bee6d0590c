"""What waits for the engine: segments with the request that they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Task(Protocol):
    """What is done to segments; equal tasks share a batch."""

    def __hash__(self) -> int:
        """Equal for tasks that share a batch."""
        ...

    @property
    def pace(self) -> Hashable:
        """Equal for tasks that take about as long, and without what belongs to one request."""
        ...

    def run(self, items: Sequence[Any]) -> list[Any]:
        """One result for each item."""
        ...


class Ticket:
    """The segments of one request, their results so far, and whether anybody still waits for them."""

    __slots__ = ("_left", "_results", "future", "is_cancelled", "waiting_segments", "waiting_tokens")

    def __init__(self, count: int) -> None:
        """For `count` segments, at least one; made in the event loop, where `future` is awaited."""
        self.future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._results: list[Any] = [None] * count
        self._left, self.is_cancelled = count, False
        self.waiting_segments, self.waiting_tokens = 0, 0

    def deliver(self, index: int, result: Any) -> None:
        """Take one result, or the exception that took its place; in the event loop."""
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
    """Its number in the request."""
    item: Any
    """What its task is done to: a text, or a text and its translation."""
    tokens: int
    order: int
    """Rises with each segment that is put into the queue."""
    since: float
    """Seconds of the queue's clock."""


@dataclass(slots=True)
class Batch:
    """Segments that are computed together."""

    task: Task
    segments: list[Segment]

    @property
    def tokens(self) -> int:
        """Source tokens, without padding."""
        return sum(segment.tokens for segment in self.segments)
