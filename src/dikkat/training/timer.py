"""The clock of one run: its seconds, what validations and saves take of them, and when a save is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

BYTES_PER_SECOND = 2e8
"""Speed assumed of a disk until a save was measured."""
SAVING_SHARE = 0.05
"""Share of the time, at most, that saves between validations take."""


class RunTimer:
    """Measures a run by `clock`, in seconds; `save_bytes` tell how long a save may take until one was measured."""

    def __init__(self, clock: Callable[[], float], save_bytes: int) -> None:
        self.clock = clock
        self.save_seconds = save_bytes / BYTES_PER_SECOND
        """Time of the last save."""
        self._last_save = clock()
        self._offset = -self._last_save
        self._spent = self._overhead = 0.0

    def start(self, seconds_before: float, started: float | None) -> None:
        """Begin a session, at `started` or now, of a run that took `seconds_before` in earlier ones."""
        self._last_save = self.clock()
        self._offset = seconds_before - (self._last_save if started is None else started)

    def run_seconds(self) -> float:
        """Return the seconds of the run so far, earlier sessions included."""
        return self._offset + self.clock()

    def add_update(self, began: float) -> float:
        """Count an update that began then, and return its seconds."""
        seconds = self.clock() - began
        self._spent += seconds
        return seconds

    @contextmanager
    def overhead(self) -> Iterator[None]:
        """Count the body as a validation or a save."""
        began = self.clock()
        yield
        seconds = self.clock() - began
        self._spent += seconds
        self._overhead += seconds

    @contextmanager
    def save(self) -> Iterator[None]:
        """Measure the body as a save."""
        began = self.clock()
        yield
        self._last_save = self.clock()
        self.save_seconds = self._last_save - began

    def is_time_to_save(self, minutes: float) -> bool:
        """Tell whether so many minutes passed since the last save, or more where saves would take too much time."""
        return self.clock() - self._last_save >= max(60.0 * minutes, self.save_seconds / SAVING_SHARE)

    @property
    def overhead_share(self) -> float:
        """Share of the time of training that went to validations and saves."""
        return self._overhead / max(self._spent, 1e-9)
