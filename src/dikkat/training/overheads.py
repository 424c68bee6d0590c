"""When a run validates, and on how much, so that validating and saving take no more than a tenth of its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dikkat.training.budget import TimeBudget
from dikkat.training.state import TrainingState

OVERHEAD_SHARE = 0.1
"""Share of the time of a run that validations and saves may take."""
FEWEST = 3
"""Rather than fewer validations than these, each looks at less of the held-out data."""
LEAST_SHARE = 0.1
"""But never at less than this."""
PROBE_SHARE = 0.03
"""Share of the held-out data that the first measurement looks at."""
BYTES_PER_SECOND = 2e8
"""Assumed of a disk until a save was measured."""


class Plan(NamedTuple):
    """How a run with a time limit validates."""

    share: float
    """Of the held-out data."""
    validations: int
    """Their number, the one at the end among them."""


def plan_validations(allowed: float, validation: float, save: float, wanted: int) -> Plan:
    """What fits in `allowed` seconds, where a validation on all held-out data takes `validation` and a save `save`.

    There is always one validation: the last.
    """
    fitting = allowed / max(validation + save, 1e-9)
    if fitting >= min(FEWEST, wanted):
        return Plan(1.0, min(wanted, int(fitting)))
    share = min(1.0, max(LEAST_SHARE, (allowed / min(FEWEST, wanted) - save) / max(validation, 1e-9)))
    return Plan(share, max(1, min(wanted, int(allowed / (share * validation + save) + 1e-6))))


@dataclass
class Overheads:
    """Decides when a run with a time limit validates next, from what validations and saves have cost so far."""

    budget: TimeBudget
    wanted: int
    """Validations that the user asked for."""

    @property
    def allowed(self) -> float:
        """Seconds of the whole run."""
        return OVERHEAD_SHARE * self.budget.seconds

    def begin(self, state: TrainingState, validate: Callable[[float], float], save_bytes: int) -> None:
        """Time a small validation before the first update: `validate` makes one on a share and returns what it was."""
        started = self.budget.clock()
        share = validate(PROBE_SHARE)
        seconds = self.budget.clock() - started
        plan = plan_validations(self.allowed - seconds, seconds / share, save_bytes / BYTES_PER_SECOND, self.wanted)
        state.validation_share, state.overhead_seconds = plan.share, seconds
        state.next_validation = 1.0 / plan.validations

    def validated(self, state: TrainingState, seconds: float) -> None:
        """Place the next validation, after one that took `seconds` with its save."""
        state.overhead_seconds += seconds
        progress = self.budget.progress(state.updates)
        # one more comes at the end whatever happens
        fitting = int((self.allowed - state.overhead_seconds - seconds) / max(seconds, 1e-9))
        between = max(0, min(self.wanted - state.validations - 1, fitting))
        state.next_validation = progress + (1.0 - progress) / (between + 1)
