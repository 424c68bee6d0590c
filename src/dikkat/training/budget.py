"""The budget of a run, in updates or in seconds, and the moments at which it validates."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from dikkat.training.state import TrainingState
from dikkat.training.task import Task

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
        span, computed = now - self._last[0], busy - self._last[1]
        if span > MAX_LOOKAHEAD and computed < MIN_BUSY * span:
            self._left_out += span - computed
        self._last = now, busy
        return now - self._left_out


@dataclass
class UpdateBudget:
    """A run of a fixed number of updates: progress is a pure function of the position, so resuming is exact."""

    total: int
    clock: Callable[[], float] = time.monotonic
    """Tells the time in seconds."""
    _first: tuple[int, float] | None = None

    def progress(self, updates: int) -> float:
        """Return the share of the run that is done after `updates`; learning rate and validations follow it."""
        return min(1.0, updates / self.total)

    def seconds_left(self, updates: int) -> float | None:
        """Return the seconds until the end, or None while they cannot be told."""
        now = self.clock()
        if self._first is None or updates <= self._first[0]:
            self._first = (updates, now)
            return None
        first, start = self._first
        return (now - start) / (updates - first) * (self.total - updates)

    def validated(self, seconds: float) -> None:
        """Hear how long the last validation and save took, which does not move the end of this run."""


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


Budget = UpdateBudget | TimeBudget
"""What a run may use: updates or time."""


OVERHEAD_SHARE = 0.1
"""Share of the time of a run that validations and saves may take."""
MIN_COUNT = 3
"""Rather than fewer validations than these, each looks at less of the held-out data."""
MIN_SHARE = 0.1
"""But never at less than this."""
PROBE_SHARE = 0.03
"""Share of the held-out data that the first measurement looks at."""


class Plan(NamedTuple):
    """The validations of a run with a time limit."""

    share: float
    """Of the held-out data."""
    validations: int
    """Their number, the one at the end among them."""


def plan_validations(allowed: float, validation: float, save: float, wanted: int) -> Plan:
    """Plan what fits in `allowed` seconds, where a full validation takes `validation` and a save `save` seconds.

    There is always one validation: the last.
    """
    fitting = allowed / max(validation + save, 1e-9)
    if fitting >= min(MIN_COUNT, wanted):
        return Plan(1.0, min(wanted, int(fitting)))
    share = min(1.0, max(MIN_SHARE, (allowed / min(MIN_COUNT, wanted) - save) / max(validation, 1e-9)))
    return Plan(share, max(1, min(wanted, int(allowed / (share * validation + save) + 1e-6))))


@dataclass
class ValidationPlan:
    """Decides when a run validates next; one with a time limit, by what validations and saves have cost so far."""

    budget: Budget
    wanted: int
    """Validations that the user asked for."""

    @property
    def time_budget(self) -> TimeBudget | None:
        return self.budget if isinstance(self.budget, TimeBudget) else None

    @property
    def allowed(self) -> float:
        """Seconds of the whole run that validations and saves may take."""
        return OVERHEAD_SHARE * self.time_budget.seconds if self.time_budget else math.inf

    def begin(self, state: TrainingState, task: Task, look: Callable[[], object], save_seconds: float) -> None:
        """Time a small validation, `look`, before the first update of a run with a time limit, and plan by it."""
        if self.time_budget is None:
            return
        started = self.budget.clock()
        share = task.limit_validation(PROBE_SHARE)
        look()
        seconds = self.budget.clock() - started
        plan = plan_validations(self.allowed - seconds, seconds / share, save_seconds, self.wanted)
        state.validation_share, state.overhead_seconds = plan.share, seconds
        state.next_validation = 1.0 / plan.validations
        task.limit_validation(state.validation_share)

    def next_progress(self, state: TrainingState) -> float:
        """Return the progress at which the next validation comes."""
        if self.time_budget is not None and state.next_validation:
            return state.next_validation
        return (state.validations + 1) / self.wanted

    def validated(self, state: TrainingState, seconds: float) -> None:
        """Place the next validation, after one that took `seconds` with its save."""
        if self.time_budget is None:
            return
        state.overhead_seconds += seconds
        progress = self.budget.progress(state.updates)
        # one more comes at the end whatever happens
        fitting = int((self.allowed - state.overhead_seconds - seconds) / max(seconds, 1e-9))
        between = max(0, min(self.wanted - state.validations - 1, fitting))
        state.next_validation = progress + (1.0 - progress) / (between + 1)

    def saved(self, state: TrainingState, seconds: float) -> None:
        """Count a save between two validations."""
        if self.time_budget is not None:
            state.overhead_seconds += seconds


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
