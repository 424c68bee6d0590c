"""All that training must remember to go on as if it had never stopped: numbers as JSON, vectors as safetensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dikkat.errors import DataError
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.state_check import check_state


@dataclass
class TrainingState:
    """Where a run stands. The generators have no state: order and dropout are functions of seed and position."""

    updates: int = 0
    """Optimizer steps done."""
    position: int = 0
    """Micro-batches taken from the plan."""
    count: int = 0
    """Predictions trained on: target tokens, or labels."""
    seconds: float = 0.0
    """Wall time used, earlier sessions included."""
    loss_sum: float = 0.0
    """Negative log-likelihood since the last validation, in nats."""
    loss_count: int = 0
    """Predictions in that sum."""
    validations: int = 0
    """Validations done."""
    best_score: float | None = None
    """Best validation score so far, if there was a validation; its weights are in model.safetensors."""
    stale: int = 0
    """Validations since the best one."""
    skipped: int = 0
    """Updates in a row whose gradient was not finite."""


def save_state(
    run: RunDirectory,
    state: TrainingState,
    parameters: FlatParameters,
    optimizer: Optimizer,
    keep: int,
) -> None:
    """Write a checkpoint. Raises `DiskError`; earlier checkpoints then stay."""
    tensors = {"model": parameters.named(parameters.master), "optimizer": optimizer.state()}
    run.save_checkpoint(state.updates, tensors, asdict(state), keep=keep)


def load_state(checkpoint: Checkpoint, parameters: FlatParameters, optimizer: Optimizer) -> TrainingState:
    """Put everything back as `save_state` found it. Raises `DataError` if the checkpoint is of another model."""
    try:
        parameters.fill(parameters.master, checkpoint.tensors("model"))
        parameters.refresh()
        optimizer.load_state(checkpoint.tensors("optimizer"))
        known: dict[str, Any] = checkpoint.state
        check_state(known, TrainingState)
        return TrainingState(**known)
    except (KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise DataError(f"{checkpoint.path}: belongs to a run with other settings ({error})") from None
