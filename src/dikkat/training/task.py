"""What the training loop asks of whatever is learned: batches, their loss, and how good the model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn


class BatchLoss(NamedTuple):
    """Sums over one micro-batch; the loop divides them by the `predictions` of the whole update."""

    objective: Tensor
    """What is minimized, with its graph."""
    likelihood: Tensor
    """Negative log-likelihood in nats, without smoothing and without a graph."""
    predictions: int
    """Terms of the sums: target tokens, or labels."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What one validation found."""

    loss: float
    """Negative log-likelihood a prediction, in nats, no smoothing."""
    scores: dict[str, float]
    """Further columns of metrics.jsonl, in the order in which they are told."""
    score: float
    """Decides which weights are kept: more is better."""
    shown: tuple[tuple[str, str], ...]
    """Something to look at, as labelled lines."""


class Task(Protocol):
    """One thing to learn, with the model that learns it. A position counts micro-batches from the start of the run."""

    @property
    def model(self) -> nn.Module:
        """The model; the loop moves its parameters and switches its mode."""
        ...

    @property
    def unit(self) -> str:
        """What `BatchLoss.predictions` counts, in the plural."""
        ...

    @property
    def batches_per_epoch(self) -> int:
        """Micro-batches in one pass over the data."""
        ...

    def loss(self, position: int, progress: float) -> BatchLoss:
        """Loss of the micro-batch at `position`, when that share of the run is done: a function of the two, so that
        resuming is arithmetic.
        """
        ...

    def validate(self, number: int) -> Validation:
        """Look at held-out data, with the model in evaluation mode; `number` chooses what is shown."""
        ...
