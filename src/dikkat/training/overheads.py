"""When a run validates, and on how much, so that validating and saving take no more than a tenth of its time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dikkat.training.budget import Budget, TimeBudget
from dikkat.training.state import TrainingState
from dikkat.training.task import Task

OVERHEAD_SHARE = 0.1
"""Share of the time of a run that validations and saves may take."""
FEWEST = 3
"""Rather than fewer validations than these, each looks at less of the held-out data."""
LEAST_SHARE = 0.1
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
    if fitting >= min(FEWEST, wanted):
        return Plan(1.0, min(wanted, int(fitting)))
    share = min(1.0, max(LEAST_SHARE, (allowed / min(FEWEST, wanted) - save) / max(validation, 1e-9)))
    return Plan(share, max(1, min(wanted, int(allowed / (share * validation + save) + 1e-6))))


@dataclass
class ValidationPlan:
    """Decides when a run validates next; one with a time limit, by what validations and saves have cost so far."""

    budget: Budget
    wanted: int
    """Validations that the user asked for."""
    time_budget: TimeBudget | None = None
    """The budget, where it is one of time."""

    @classmethod
    def of(cls, budget: Budget, wanted: int) -> ValidationPlan:
        """Plan so many validations within a budget."""
        return cls(budget, wanted, budget if isinstance(budget, TimeBudget) else None)

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
