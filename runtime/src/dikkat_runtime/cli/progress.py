"""Show on standard error how far long work is, and what time is left: a moving line on a terminal, else plain lines."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from dikkat_runtime import notices
from dikkat_runtime.cli.streams import terminal
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import visible

T = TypeVar("T")

WORK_EVERY = 5.0
"""Seconds between two lines."""
_PIECES_TO_ESTIMATE = 3
"""Parts of the work after which the time that is left is told."""
_CLEAR = "\r\x1b[2K"
"""Goes to the beginning of the line of a terminal and empties it."""


class WorkProgress:
    """Show which of many parts of work comes now; within it all work that is `counted` is shown."""

    def __init__(self) -> None:
        self._is_moving = terminal().isatty()
        self._is_open, self._last_line = False, -WORK_EVERY
        self._begun, self._entered, self._counts = 0.0, 0.0, False

    def __call__(self, done: int, pieces: int, what: str) -> None:
        now = time.monotonic()
        self._begun = now if done == 0 else self._begun
        if done >= _PIECES_TO_ESTIMATE:
            what = msg("{what}, {time} left", what, clock((now - self._begun) / done * (pieces - done)))
        if self._is_moving or now - self._last_line >= WORK_EVERY:
            self._last_line = now
            self._is_open = self._is_moving
            line = visible(msg("{done}/{pieces}  {what}", done + 1, pieces, what))
            print(f"{_CLEAR}{line}" if self._is_moving else f"{line}\n", end="", file=terminal(), flush=True)

    def __enter__(self) -> Self:
        notices.COUNTERS.append(self.counted)
        self._entered = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        notices.COUNTERS.pop()
        if self._is_open:
            print(_CLEAR, end="", file=terminal(), flush=True)

    def counted(self, items: Sequence[T], what: str) -> Iterator[T]:
        """Pass the items on, by default texts, and show every `WORK_EVERY` seconds how many were taken.

        Only the outermost items are shown: work on one of them may count its own.
        """
        is_inner, self._counts = self._counts, True
        self._begun = self._begun if is_inner else time.monotonic()
        for done, item in enumerate(items):
            if not is_inner and time.monotonic() - max(self._last_line, self._entered) >= WORK_EVERY:
                self(done, len(items), what or msg("texts"))
            yield item
        self._counts = is_inner


def clock(seconds: float) -> str:
    """Return minutes and seconds, with the hours before them where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
