"""The budget of a run, in updates or in seconds, and the moments at which it validates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

# A clock that leaves out the time in which the process did not run.

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


class Budget(Protocol):
    """Tells the progress of a run from 0 to 1, which the learning rate and the validations follow."""

    @property
    def clock(self) -> Callable[[], float]:
        """Tells the time in seconds."""
        ...

    def progress(self, updates: int) -> float:
        """Return the share of the run that is done after `updates`."""
        ...

    def seconds_left(self, updates: int) -> float | None:
        """Return the seconds until the end, or None while they cannot be told."""
        ...

    def validated(self, seconds: float) -> None:
        """Tell how long the last validation and save took."""
        ...


@dataclass
class UpdateBudget:
    """A run of a fixed number of updates: progress is a pure function of the position, so resuming is exact."""

    total: int
    clock: Callable[[], float] = time.monotonic
    _first: tuple[int, float] | None = None

    def progress(self, updates: int) -> float:
        return min(1.0, updates / self.total)

    def seconds_left(self, updates: int) -> float | None:
        now = self.clock()
        if self._first is None or updates <= self._first[0]:
            self._first = (updates, now)
            return None
        first, start = self._first
        return (now - start) / (updates - first) * (self.total - updates)

    def validated(self, seconds: float) -> None:
        """Ignore it: the end does not depend on time."""


@dataclass
class TimeBudget:
    """A run that ends `seconds` after `start`, the last validation and save included.

    `already` is the time that the run had used before it was interrupted.
    """

    seconds: float
    start: float
    already: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _reserve: float = field(default=0.0)

    def progress(self, updates: int) -> float:
        return min(1.0, max(0.0, self.used() / max(self.seconds - self._reserve, 1e-9)))

    def used(self) -> float:
        """Return the seconds spent, earlier sessions of the same run included."""
        return self.already + self.clock() - self.start

    def seconds_left(self, updates: int) -> float | None:
        return max(0.0, self.seconds - self.used())

    def validated(self, seconds: float) -> None:
        """Keep time for one more validation like the slowest so far."""
        self._reserve = min(max(self._reserve, 1.1 * seconds), 0.3 * self.seconds)
