"""One proof: what it claims of a model, what was measured, and what that says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["pass", "fail", "follows"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What one claim came to on one model."""

    name: str
    says: str
    """What is claimed, in one sentence."""
    violation: float
    """How far the model is from it: 0 is exact, NaN that the numbers cannot be compared, infinity that it crashed."""
    limit: float
    """The largest violation that still passes."""
    where: str = ""
    """Where the violation was found."""
    because: str | None = None
    """The failed proof that this one rests on: its fault alone explains the violation."""

    @property
    def passed(self) -> bool:
        """Whether the violation is within the limit; NaN never is."""
        return self.violation <= self.limit

    @property
    def outcome(self) -> Outcome:
        """`fail` names a fault; `follows` is a violation for which another proof, which failed, is to blame."""
        if self.passed:
            return "pass"
        return "fail" if self.because is None else "follows"
