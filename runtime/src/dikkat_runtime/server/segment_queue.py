"""Queue segments with two priorities and ageing, batches within a budget, and admission by estimated seconds."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits


class Task(Protocol):
    """A task computes results of segments."""

    @property
    def batch_key(self) -> Hashable:
        """A key that is equal for tasks whose segments share batches, without data of one request."""
        ...

    def run(self, items: Sequence[Any], tasks: Sequence[Any]) -> list[Any]:
        """Return one result for each item, whose own task is that of the same index; they share a batch."""
        ...


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
    task: Task
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

    segments: list[Segment]

    @property
    def tokens(self) -> int:
        """Number of source tokens, without padding."""
        return sum(segment.tokens for segment in self.segments)

    def run(self) -> list[Any]:
        tasks = [segment.task for segment in self.segments]
        return tasks[0].run([segment.item for segment in self.segments], tasks)


FIRST_GUESS = 0.0005
"""Seconds a token, until a batch has been measured."""
_DECAY = 0.9
"""Factor on the weight of a measurement when the next one comes."""


class TokenRate:
    """The seconds a token of recent batches, newer ones counting more."""

    def __init__(self) -> None:
        self._tokens, self._seconds = 0.0, 0.0

    def add(self, tokens: int, seconds: float) -> None:
        """Take one batch into account."""
        self._tokens = _DECAY * self._tokens + tokens
        self._seconds = _DECAY * self._seconds + seconds

    @property
    def seconds_per_token(self) -> float:
        return self._seconds / self._tokens if self._tokens else FIRST_GUESS


class _Lane:
    """The segments that share batches."""

    def __init__(self) -> None:
        self.interactive, self.bulk = deque[Segment](), deque[Segment]()
        self.tokens = 0


class SegmentQueue:
    """Waiting segments; put from the event loop, taken by the engine thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self.changed = threading.Condition()
        """Held while the queue is changed, and notified of every change."""
        self._lanes: dict[Hashable, _Lane] = {}
        self._rates: dict[Hashable, TokenRate] = {}
        self._order = 0
        self.segments = 0
        """Segments for which somebody still waits."""

    @property
    def estimated_seconds(self) -> float:
        """The estimated time until all waiting segments are computed."""
        with self.changed:
            return sum(lane.tokens * self._rate(key).seconds_per_token for key, lane in self._lanes.items())

    def check(self) -> None:
        """Raise `RequestError` where a new request would wait longer than the limit."""
        if self.segments and (seconds := self.estimated_seconds) > self._limits.wait_seconds:
            raise RequestError("overloaded", f"too busy: about {seconds:.0f} s of work is waiting", retry_after=seconds)

    def put(
        self, task: Task, ticket: Ticket, items: Sequence[Any], tokens: Sequence[int], first: int = 0, count: int = 0
    ) -> None:
        """Add segments of one request from its `first` on, with the tokens of each; `count` are all that it has."""
        is_interactive = max(count, len(items)) <= self._limits.interactive_segments
        with self.changed:
            lane, now = self._lanes.setdefault(task.batch_key, _Lane()), self._clock()
            waiting = lane.interactive if is_interactive else lane.bulk
            for index, (item, size) in enumerate(zip(items, tokens, strict=True), start=first):
                waiting.append(Segment(ticket, task, index, item, size, self._order, now))
                self._order += 1
            lane.tokens += sum(tokens)
            self.segments += len(items)
            ticket.waiting_tokens += sum(tokens)
            ticket.waiting_segments += len(items)
            self.changed.notify()

    def cancel(self, task: Task, ticket: Ticket) -> None:
        """Remove the segments of a request for which nobody waits any more."""
        if not ticket.waiting_segments:
            # all of them are taken, and none is queued again
            ticket.is_cancelled = True
            return
        with self.changed:
            if ticket.is_cancelled:
                return
            ticket.is_cancelled = True
            if lane := self._lanes.get(task.batch_key):
                lane.tokens -= ticket.waiting_tokens
            self.segments -= ticket.waiting_segments
            ticket.waiting_segments = ticket.waiting_tokens = 0

    def take(self) -> Batch | None:
        """Return the next batch, None where nothing waits; the caller holds `changed`."""
        key = self._next_key()
        if key is None:
            return None
        lane = self._lanes[key]
        first, second = lane.interactive, lane.bulk
        if not first or (second and self._is_old(second[0]) and second[0].order < first[0].order):
            first, second = second, first
        segments, longest = list[Segment](), 0
        for waiting in (first, second):
            while head := _head(waiting):
                longest = max(longest, head.tokens)
                if segments and (len(segments) + 1) * longest > self._limits.batch_tokens:
                    break
                segments.append(waiting.popleft())
                self._taken(lane, head)
        if not lane.interactive and not lane.bulk:
            del self._lanes[key]
        return Batch(segments)

    def measured(self, batch: Batch, seconds: float) -> None:
        """Update the seconds a token of batches like this one."""
        with self.changed:
            self._rates.setdefault(batch.segments[0].task.batch_key, TokenRate()).add(batch.tokens, seconds)

    def forget_rates(self) -> None:
        """Forget all measured rates, since other models are served from now on."""
        with self.changed:
            self._rates = {key: rate for key, rate in self._rates.items() if key in self._lanes}

    def _rate(self, key: Hashable) -> TokenRate:
        return self._rates.get(key) or TokenRate()

    def _next_key(self) -> Hashable | None:
        """Return the key of the next segment: interactive and old ones by age, then bulk by age."""
        ranked = list[tuple[bool, int, Hashable]]()
        for key, lane in list(self._lanes.items()):
            for is_bulk, head in ((False, _head(lane.interactive)), (True, _head(lane.bulk))):
                if head is not None:
                    ranked.append((is_bulk and not self._is_old(head), head.order, key))
            if not lane.interactive and not lane.bulk:
                del self._lanes[key]
        # no two segments have one order, so that keys are never compared
        return min(ranked)[2] if ranked else None

    def _is_old(self, segment: Segment) -> bool:
        return self._clock() - segment.since >= self._limits.ageing_seconds

    def _taken(self, lane: _Lane, segment: Segment) -> None:
        lane.tokens -= segment.tokens
        segment.ticket.waiting_tokens -= segment.tokens
        segment.ticket.waiting_segments -= 1
        self.segments -= 1


def _head(waiting: deque[Segment]) -> Segment | None:
    """Return the first segment that somebody waits for; drop those before it."""
    while waiting and waiting[0].ticket.is_cancelled:
        waiting.popleft()
    return waiting[0] if waiting else None


MAX_ACTIVE = 8
"""Most texts that are written side by side, a piece of each in turn."""

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that has become certain; at the end also why it ended."""

    text: str
    tokens: int
    """Tokens that the model wrote for it, the end mark left out."""
    finish: Finish | None = None


class AnswerStream:
    """One text in generation: pieces are put by the engine thread, and read in the event loop."""

    def __init__(self, start: Callable[[], Iterator[Piece]], most_tokens: int) -> None:
        """`start` yields the pieces, in the engine thread; they come from at most `most_tokens` tokens."""
        self._start, self.most_tokens = start, most_tokens
        self._pieces: Iterator[Piece] | None = None
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Queue[Piece | BaseException] = asyncio.Queue()
        self.is_cancelled = False

    async def next_piece(self) -> Piece:
        """Return the next piece. Raises the error of the generation."""
        piece = await self._ready.get()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def step(self) -> tuple[bool, int]:
        """Write one piece, in the engine thread; return whether more follows, and the tokens it took."""
        try:
            if self._pieces is None:
                self._pieces = self._start()
            piece = next(self._pieces)
        except Exception as error:
            self._hand_over(error)
            return False, 0
        self._hand_over(piece)
        return piece.finish is None, piece.tokens

    def _hand_over(self, piece: Piece | BaseException) -> None:
        self._loop.call_soon_threadsafe(self._ready.put_nowait, piece)


class StreamTable:
    """The texts in generation, and those that wait for their turn; guarded by the lock of the queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._rate = limits, TokenRate()
        self.waiting, self.active = deque[AnswerStream](), list[AnswerStream]()

    @property
    def estimated_seconds(self) -> float:
        """The estimated time until one more text would be begun."""
        if len(self.waiting) + len(self.active) < MAX_ACTIVE:
            return 0.0
        return self._rate.seconds_per_token * sum(stream.most_tokens for stream in (*self.waiting, *self.active))

    def check(self) -> None:
        """Raise `RequestError` where a new text would wait longer than the limit."""
        if (seconds := self.estimated_seconds) > self._limits.wait_seconds:
            raise RequestError(
                "overloaded", f"too busy: about {seconds:.0f} s of writing is waiting", retry_after=seconds
            )

    def refresh(self) -> list[AnswerStream]:
        """Drop texts without a reader, begin waiting ones, and return those in generation."""
        self.active = [stream for stream in self.active if not stream.is_cancelled]
        while self.waiting and len(self.active) < MAX_ACTIVE:
            stream = self.waiting.popleft()
            if not stream.is_cancelled:
                self.active.append(stream)
        return list(self.active)

    def measured(self, tokens: int, seconds: float) -> None:
        if tokens:
            self._rate.add(tokens, seconds)
