"""The interface of a watcher, which receives the progress of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dikkat.training.task import Validation


@dataclass(frozen=True, slots=True)
class StepReport:
    """A report of one update."""

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
    """Is told what happens in a run."""

    def step(self, report: StepReport) -> None:
        """Hear of an update."""
        ...

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Hear of a validation, the row of metrics that it made, and whether it is the best so far."""
        ...

    def note(self, text: str) -> None:
        """Hear of something unusual, in one line."""
        ...
