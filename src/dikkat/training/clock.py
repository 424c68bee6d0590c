"""A clock that leaves out the time in which the process did not run."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_LOOKAHEAD = 5.0
"""Seconds between two looks at the clock that are counted whatever the process did in them."""
MIN_BUSY = 0.05
"""Share of a longer stretch that a running process computes at least, however busy the machine is."""


class RunningClock:
    """Gives the seconds of `wall`, less those in which the process was stopped (SIGSTOP, Ctrl-Z) or the machine slept.

    A stretch of more than `MAX_LOOKAHEAD` seconds between two looks, in which all threads together computed for less
    than `MIN_BUSY` of it, was no stretch of training: of it only the time that was computed counts.
    """

    def __init__(
        self, wall: Callable[[], float] = time.monotonic, busy: Callable[[], float] = time.process_time
    ) -> None:
        self._wall, self._busy = wall, busy
        self._last = wall(), busy()
        self._left_out = 0.0

    def __call__(self) -> float:
        now, busy = self._wall(), self._busy()
        stretch, computed = now - self._last[0], busy - self._last[1]
        if stretch > MAX_LOOKAHEAD and computed < MIN_BUSY * stretch:
            self._left_out += stretch - computed
        self._last = now, busy
        return now - self._left_out
