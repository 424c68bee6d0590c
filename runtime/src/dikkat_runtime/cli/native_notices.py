"""Print messages about the native kernels on standard error: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from dikkat_runtime.localization import translated
from dikkat_runtime.text.visible import one_visible_line

PLAIN_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


class NativeNotices:
    """A listener of `dikkat_runtime.notices` that prints the messages."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._last_line = 0.0
        self._is_open = False

    def compiling(self, done: int, total: int) -> None:
        text = translated("compiling the native kernels for this processor, once: {done} of {total} …", done, total)
        if _is_plain_terminal():
            self._is_open = True
            _write(f"\r{text}")
        elif done == 0 or done == total or time.monotonic() - self._last_line >= PLAIN_EVERY:
            self._last_line = time.monotonic()
            _write(f"{text}\n")

    def stopped_compiling(self) -> None:
        if self._is_open:
            self._is_open = False
            _write("\n")

    def note(self, text: str) -> None:
        self.stopped_compiling()
        _write(f"{self._program}: {one_visible_line(text)}\n")


def _is_plain_terminal() -> bool:
    """Return whether standard error is a terminal that nothing else is drawn on, such as the bar of a training."""
    stream = sys.stderr
    return stream is not None and not stream.closed and stream.isatty() and stream is sys.__stderr__


def _write(text: str) -> None:
    # a closed standard error must not end the work
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
