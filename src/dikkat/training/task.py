"""The contract between the training loop and a task: batches, their loss, and how good the model is."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks

Stop = Callable[[], bool]
"""Whether to end as soon as it is safe."""


class ValidationStoppedError(Exception):
    """A validation was left because somebody asked to stop; nothing of it is kept."""


T = TypeVar("T")


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Part:
    """One of `count` parts that the rows of a micro-batch are cut into, so that several ranks share them."""

    index: int
    count: int

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows, of all those of a micro-batch, that are in this part; there may be none."""
        return rows[self.index * len(rows) // self.count : (self.index + 1) * len(rows) // self.count]


WHOLE = Part(0, 1)


class BatchLoss(NamedTuple):
    """Sums over one micro-batch, or a part of it; the loop divides them by the `predictions` of the whole update."""

    objective: Tensor
    """What is minimized, with its graph."""
    likelihood: Tensor
    """Negative log-likelihood in nats, without smoothing and without a graph."""
    predictions: int
    """Terms of the sums: target tokens, or labels."""

    @classmethod
    def of_nothing(cls, device: torch.device) -> "BatchLoss":
        """Return the loss of a part without rows, which no gradient comes from."""
        return cls(torch.zeros((), device=device), torch.zeros((), device=device), 0)


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of one validation."""

    loss: float
    """Negative log-likelihood a prediction, in nats, no smoothing."""
    scores: dict[str, float]
    """Further columns of metrics.jsonl, in the order in which they are told."""
    score: float
    """Decides which weights are kept: more is better."""
    shown: tuple[tuple[str, str], ...]
    """Something to look at, as labelled lines."""
    is_meaningful: bool = True
    """Whether the score says more than that of a model that has not learned."""
    recorded: Mapping[str, float] = field(default_factory=dict)
    """More columns of metrics.jsonl, which are not told."""

    @classmethod
    def broken(cls, loss: float) -> "Validation":
        """Return the result where `loss` is not finite."""
        return cls(loss, {}, math.nan, ())


class Baseline(NamedTuple):
    """The validation score that needs no learning."""

    score: float
    margin: float
    """How much better a score must be to be worth anything."""
    what: str
    """What scores so, as the end of a sentence."""


class Task(Protocol):
    """One thing to learn, with the model that learns it. A position counts micro-batches from the start of the run."""

    @property
    def model(self) -> nn.Module:
        """The model; the loop moves its parameters and switches its mode."""

    @property
    def unit(self) -> str:
        """The plural noun of what `BatchLoss.predictions` counts."""

    @property
    def batches_per_epoch(self) -> int:
        """Micro-batches in one pass over the data."""

    def loss(self, position: int, progress: float, part: Part = WHOLE) -> BatchLoss:
        """Compute the loss of a part of the micro-batch at `position`, when the share `progress` of the run is done.

        It is a function of the three, so that resuming is arithmetic.
        """

    def baseline(self) -> Baseline:
        """Return the score that a validation must be compared with before it means something."""

    def limit_validation(self, share: float) -> float:
        """Validate on about that share of the held-out data, evenly spread; returns the share that it came to."""

    def validate(self, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS) -> Validation:
        """Look at held-out data, with the model in evaluation mode; `number` chooses what is shown.

        All `ranks` are called together, and each does its share. A loss that is not finite comes back alone: such a
        model writes nothing. Raises `ValidationStoppedError`.
        """


def share_out(ranks: Ranks, number: int, work: Callable[[int], T], should_stop: Stop) -> list[T]:
    """Return what `work` computes of each item below `number`; each rank does some. Raises `ValidationStoppedError`."""

    def own(items: Sequence[int]) -> list[T] | None:
        results: list[T] = []
        for item in items:
            if should_stop():
                return None
            results.append(work(item))
        return results

    results = ranks.share_out(number, own)
    if results is None:
        raise ValidationStoppedError
    return results


def spread(count: int, share: float, least: int) -> NDArray[np.int64]:
    """Choose about that share of the indices below `count`, evenly spread with both ends; at least `least`, or all."""
    chosen = min(count, max(least, round(share * count)))
    return np.unique(np.linspace(0, count - 1, chosen).astype(np.int64))


class Observer(Protocol):
    """Looks at the model between two updates, and leaves it as it is."""

    def is_due(self, updates: int) -> bool:
        """Return whether to look after so many updates."""

    def observe(self, updates: int, model: nn.Module) -> None:
        """Look at the model, which is in evaluation mode."""


# The interface of a watcher, which receives the progress of a training run.


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

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Hear of a validation, the row of metrics that it made, and whether it is the best so far."""

    def note(self, text: str) -> None:
        """Hear of something unusual, in one line."""
