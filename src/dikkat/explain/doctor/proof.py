"""The result of one check: the claim, the measured violation, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "follows"]


@dataclass(frozen=True, slots=True)
class Proof:
    """Hold the result of one claim on one model."""

    name: str
    says: str
    """The claim, in one sentence."""
    violation: float
    """Distance of the model from the claim: 0 is exact, NaN cannot be compared, infinity is a crash."""
    limit: float
    """Largest violation that passes."""
    where: str = ""
    """Where the violation is."""
    because: str | None = None
    """The failed claim that this one rests on and that explains the violation."""

    @property
    def passed(self) -> bool:
        """Return whether the violation is within the limit; NaN never is."""
        return self.violation <= self.limit

    @property
    def outcome(self) -> Outcome:
        """Return the outcome: `fail` names a fault; `follows` is a violation that another failed claim explains."""
        if self.passed:
            return "pass"
        return "fail" if self.because is None else "follows"
