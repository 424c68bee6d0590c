"""Back to a good state: from a checkpoint, or, after a divergence, to the last one at half the learning rate."""

from __future__ import annotations

import json
from collections.abc import Callable

import safetensors
import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.saving import checksum, write_weights
from dikkat.training.state import TrainingState, load_state
from dikkat_runtime.errors import DataError, DivergedError, MissingInputError
from dikkat_runtime.messages import msg

MAX_HEADER = 4 << 20
"""Bytes that a file of weights may have beside their values."""


def restore_best(run: RunDirectory, state: TrainingState, parameters: FlatParameters, optimizer: Optimizer) -> str:
    """Rebuild missing or damaged best weights from a checkpoint that holds them; else forget their score.

    `parameters` and `optimizer` are those of `state`. Returns what to tell, or nothing where all is well. Raises
    `DiskError`.
    """
    # nothing of a file that cannot be theirs is read: it may seem to be half a terabyte
    most_bytes = 4 * parameters.master.numel() + MAX_HEADER
    if state.best_score is None or (_is_small(run, most_bytes) and _are_sound(run, state)):
        return ""
    what = msg("does not hold the best weights any more" if run.weights.exists() else "is missing")
    if (weights := _held(run, state, parameters, optimizer)) is not None:
        state.best_sha256 = write_weights(run, state.best_update, weights)
        return msg("{weights}: {what}; rebuilt from the checkpoint of update {best_update}").fill(
            run.weights, what, state.best_update
        )
    note = msg("{weights}: {what}, and no checkpoint holds them; the scores so far are forgotten").fill(
        run.weights, what
    )
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


MAX_SKIPPED = 20
"""Updates in a row without a finite gradient that are a divergence."""


class Recovery:
    """Puts parameters and optimizer of a run back to what they were."""

    def __init__(
        self, run: RunDirectory, config: TrainingConfig, parameters: FlatParameters, optimizer: Optimizer
    ) -> None:
        self._run, self._config = run, config
        self._parameters, self._optimizer = parameters, optimizer
        self._first_weights: Tensor | None = None

    def remember_first_weights(self) -> None:
        """Keep the weights of now for a divergence before the first checkpoint."""
        self._first_weights = self._parameters.master.clone()

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None]) -> TrainingState:
        """Load a checkpoint and return its state; `note` is told of best weights that were not there."""
        state = load_state(checkpoint, self._parameters, self._optimizer)
        self._run.truncate_metrics(state.updates)
        if lost := restore_best(self._run, state, self._parameters, self._optimizer):
            note(lost)
        return state

    def go_back(self, failed: TrainingState, fault: str, note: Callable[[str], None]) -> TrainingState:
        """Return the state of the last checkpoint, or of the first weights, at half the learning rate of `failed`.

        Raises `DivergedError` when that was done before, or there is nothing to go back to.
        """
        if failed.rate_scale < 1.0:
            raise DivergedError(self._message(failed, msg("{fault}, at half the learning rate as before").fill(fault)))
        if (checkpoint := self._run.latest_checkpoint()) is not None:
            state = self.resume(checkpoint, note)
        elif self._first_weights is not None:
            state = self._start_anew(failed, self._first_weights)
        else:
            raise DivergedError(self._message(failed, fault))
        state.rate_scale, state.skipped = failed.rate_scale / 2, 0
        note(
            msg("{fault} at update {updates}; going back to update {updates2}, at half the learning rate").fill(
                fault, failed.updates, state.updates
            )
        )
        return state

    def _start_anew(self, failed: TrainingState, weights: Tensor) -> TrainingState:
        self._parameters.master.copy_(weights)
        self._parameters.refresh()
        sizes = self._optimizer.sizes
        self._optimizer.load_state(
            {name: weights if name == "average" else torch.zeros(size) for name, size in sizes.items()}
        )
        state = TrainingState(conditions=failed.conditions)
        state.validation_share, state.next_validation = failed.validation_share, failed.next_validation
        return state

    def _message(self, failed: TrainingState, fault: str) -> str:
        kept = msg("no good state was saved")
        if (checkpoint := self._run.latest_checkpoint()) is not None:
            kept = msg("what was good up to update {step} is saved").fill(checkpoint.step)
        names = ["learning_rate", *(["matrix_learning_rate"] if self._config.optimizer == "muon" else [])]
        usual = TrainingConfig()
        lower = {name: min(getattr(self._config, name) / 10, getattr(usual, name)) for name in names}
        options = " ".join(msg("--set training.{name}={rate:g}").fill(name, rate) for name, rate in lower.items())
        return msg(
            "{path}: {fault}, at update {updates}; {kept}; set a lower training.learning_rate and begin anew in "
            "another --out, as with {options}"
        ).fill(self._run.path, fault, failed.updates, kept, options)
