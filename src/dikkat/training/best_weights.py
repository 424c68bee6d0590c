"""The best weights of a run that is taken up: what model.safetensors holds is what the state says it holds."""

from __future__ import annotations

import json

import safetensors
from torch import Tensor

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.saving import checksum, write_weights
from dikkat.training.state import TrainingState
from dikkat_runtime.errors import DataError, MissingInputError

MOST_HEADER = 4 << 20
"""Bytes that a file of weights may have beside their values."""


def restore_best(run: RunDirectory, state: TrainingState, parameters: FlatParameters, optimizer: Optimizer) -> str:
    """Rebuild missing or damaged best weights from a checkpoint that holds them; else forget their score.

    `parameters` and `optimizer` are those of `state`. Returns what to tell, or nothing where all is well. Raises
    `DiskError`.
    """
    # nothing of a file that cannot be theirs is read: it may seem to be half a terabyte
    most_bytes = 4 * parameters.master.numel() + MOST_HEADER
    if state.best_score is None or (_is_small(run, most_bytes) and _are_sound(run, state)):
        return ""
    what = "does not hold the best weights any more" if run.weights.exists() else "is missing"
    if (weights := _held(run, state, parameters, optimizer)) is not None:
        state.best_sha256 = write_weights(run, state.best_update, weights)
        return f"{run.weights}: {what}; rebuilt from the checkpoint of update {state.best_update}"
    note = f"{run.weights}: {what}, and no checkpoint holds them; the scores so far are forgotten"
    state.best_score, state.best_update, state.best_sha256, state.stale = None, 0, "", 0
    state.best_loss = 0.0
    run.truncate_metrics(after_step=-1)
    return note


def _is_small(run: RunDirectory, most_bytes: int) -> bool:
    try:
        return run.weights.stat().st_size <= most_bytes
    except OSError:
        return False


def _are_sound(run: RunDirectory, state: TrainingState) -> bool:
    if state.best_sha256 and checksum(run.weights) == state.best_sha256:
        return True
    try:
        run.load_weights()
        step = _step_of(run)
    except (DataError, MissingInputError):
        return False
    if state.best_sha256 and step <= state.updates:
        return False
    # killed after a better validation wrote its weights and before its checkpoint: the run comes there again
    state.best_sha256 = checksum(run.weights)
    return True


def _step_of(run: RunDirectory) -> int:
    with safetensors.safe_open(run.weights, "pt") as file:
        notes = json.loads((file.metadata() or {}).get("dikkat", "{}"))
    return int(notes.get("metadata", {}).get("step", 0))


def _held(
    run: RunDirectory, state: TrainingState, parameters: FlatParameters, optimizer: Optimizer
) -> dict[str, Tensor] | None:
    """Return the best weights, where this checkpoint or an older one is of their update."""
    if state.best_update == state.updates:
        # of several ranks, only this one is here
        average = optimizer.loaded.get("average", optimizer.average)
        return parameters.named(parameters.master if average is None else average)
    folder = run.checkpoints / f"step-{state.best_update:06d}"
    try:
        if optimizer.average is None:
            return read_tensors(folder / "model.safetensors")
        return parameters.named(read_tensors(folder / "optimizer.safetensors")["average"])
    except (DataError, MissingInputError, KeyError):
        return None
