"""Hand the texts that language models write to the event loop piece by piece."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import TokenRate
from dikkat_runtime.server.settings import Limits

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
        tokens = sum(stream.most_tokens for stream in (*self.waiting, *self.active))
        return tokens * self._rate.seconds_per_token

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
        """Update the seconds a token."""
        if tokens:
            self._rate.add(tokens, seconds)
