"""What whoever watches a training run is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dikkat.training.task import Validation


@dataclass(frozen=True, slots=True)
class StepReport:
    """One update, for whoever watches."""

    updates: int
    epoch: float
    progress: float
    loss: float
    """Negative log-likelihood a prediction, in nats."""
    count: int
    """Predictions of this update: target tokens, or labels."""
    unit: str
    """What they are, in the plural."""
    seconds: float
    """Time of this update."""
    seconds_left: float | None


class Watcher(Protocol):
    """Sees what happens; knows nothing of how."""

    def step(self, report: StepReport) -> None: ...

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None: ...

    def note(self, text: str) -> None: ...
