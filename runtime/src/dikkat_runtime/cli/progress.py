"""Show on standard error how far long work is, and what time is left: a moving line on a terminal, else plain lines."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from dikkat_runtime import notices
from dikkat_runtime.cli.streams import terminal
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import clock_time, visible

WORK_EVERY = 5.0
"""Seconds between two lines."""
_PIECES_TO_ESTIMATE = 3
"""Parts of the work after which the time that is left is told."""
_CLEAR = "\r\x1b[2K"
"""Goes to the beginning of the line of a terminal and empties it."""


class WorkProgress:
    """Show which of many parts of work comes now; within it all work that is `counted` is shown."""

    def __init__(self) -> None:
        self._is_open, self._last_line = False, -WORK_EVERY
        self._begun, self._entered, self._counts = 0.0, 0.0, False

    def __call__(self, done: int, pieces: int, what: str) -> None:
        now = time.monotonic()
        self._begun = now if done == 0 else self._begun
        if done >= _PIECES_TO_ESTIMATE:
            what = msg("{what}, {time} left", what, clock_time((now - self._begun) / done * (pieces - done)))
        is_moving = _is_plain_terminal()
        if is_moving or now - self._last_line >= WORK_EVERY:
            self._last_line, self._is_open = now, is_moving
            line = visible(msg("{done}/{pieces}  {what}", done + 1, pieces, what))
            write_message(f"{_CLEAR}{line}" if is_moving else f"{line}\n")

    def close(self) -> None:
        """Empty a moving line."""
        if self._is_open:
            self._is_open = False
            write_message(_CLEAR)

    def __enter__(self) -> Self:
        notices.COUNTERS.append(self.counted)
        self._entered = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        notices.COUNTERS.pop()
        self.close()

    def counted(self, items: Sequence[Any], what: str) -> Iterator[Any]:
        """Pass the items on, by default texts, and show every `WORK_EVERY` seconds how many were taken.

        Only the outermost items are shown: work on one of them may count its own.
        """
        is_inner, self._counts = self._counts, True
        self._begun = self._begun if is_inner else time.monotonic()
        try:
            for done, item in enumerate(items):
                if not is_inner and time.monotonic() - max(self._last_line, self._entered) >= WORK_EVERY:
                    self(done, len(items), what or msg("texts"))
                yield item
        finally:  # whoever stops early is done with them, too
            self._counts = is_inner


def _is_plain_terminal() -> bool:
    """Return whether standard error is a terminal that nothing else is drawn on, such as the bar of a training."""
    stream = terminal()
    return stream is not None and not stream.closed and stream.isatty() and not hasattr(stream, "rich_proxied_file")


def write_message(text: str) -> None:
    """Write to standard error as it is; a closed one ends no work."""
    with suppress(OSError, ValueError, AttributeError):
        terminal().write(text)
        terminal().flush()
