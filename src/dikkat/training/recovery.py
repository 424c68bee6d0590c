"""Back to a good state: from a checkpoint, or, after a divergence, to the last one at half the learning rate."""

from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.run_directory.tensor_files import read_metadata, read_tensors
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks, by_first
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.saving import Saver, checksum, collecting, write_weights
from dikkat.training.state import TrainingState, load_state
from dikkat_runtime.errors import DataError, DivergedError, MissingInputError, msg

MAX_HEADER = 4 << 20
"""Bytes that a file of weights may have in addition to their values."""


def restore_best(run: RunDirectory, state: TrainingState, parameters: FlatParameters, optimizer: Optimizer) -> str:
    """Rebuild missing or damaged best weights from a checkpoint that holds them; else forget their score.

    `parameters` and `optimizer` are those of `state`. Returns what to tell, or nothing where all is well. Raises
    `DiskError`.
    """
    # nothing of a file that cannot be theirs is read: it may seem to be half a terabyte
    most_bytes = 4 * parameters.size + MAX_HEADER
    if state.best_score is None or (_is_small(run, most_bytes) and _are_sound(run, state)):
        return ""
    what = msg("does not hold the best weights any more" if run.weights.exists() else "is missing")
    if (weights := _held(run, state, parameters, optimizer)) is not None:
        state.best_sha256 = write_weights(run, state.best_update, weights)
        return msg("{weights}: {problem}; rebuilt from the checkpoint of update {update}").fill(
            run.weights, what, state.best_update
        )
    note = msg("{weights}: {problem}, and no checkpoint holds them; the scores so far are forgotten", run.weights, what)
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
    if checksum(run.weights) == state.best_sha256:
        return True
    try:
        run.load_weights()
        step = int(read_metadata(run.weights).get("step", 0))
    except (DataError, MissingInputError):
        return False
    if step <= state.updates:
        return False
    # killed after a better validation wrote its weights and before its checkpoint: the run comes there again
    state.best_sha256 = checksum(run.weights)
    return True


def _held(
    run: RunDirectory, state: TrainingState, parameters: FlatParameters, optimizer: Optimizer
) -> dict[str, Tensor] | None:
    """Return the best weights, where this checkpoint or an older one is of their update."""
    if state.best_update == state.updates:
        # of several ranks, only this one is here
        average = optimizer.loaded.get("average", optimizer.average)
        return parameters.whole(parameters.master if average is None else average)
    folder = run.checkpoints / f"step-{state.best_update:06d}"
    try:
        if optimizer.average is None:
            vector = torch.empty_like(parameters.master)
            parameters.fill(vector, read_tensors(folder / "model.safetensors"))
            return parameters.whole(vector)
        return parameters.whole(read_tensors(folder / "optimizer.safetensors")["average"])
    except (DataError, MissingInputError, KeyError, RuntimeError):
        return None


MAX_SKIPPED = 20
"""Updates in a row without a finite gradient that are a divergence."""


class Recovery:
    """Saves a run, and puts parameters, optimizer and state of all ranks back to what they were."""

    def __init__(
        self,
        run: RunDirectory,
        config: TrainingConfig,
        parameters: FlatParameters,
        optimizer: Optimizer,
        ranks: Ranks = ONE_PROCESS,
    ) -> None:
        self.run, self.config, self.ranks = run, config, ranks
        self.parameters, self.optimizer = parameters, optimizer
        self.saver = Saver(run, config.keep_checkpoints, parameters, optimizer)
        self.first_weights: Tensor | None = None
        """Weights to go back to before the first checkpoint."""

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint of this very moment, by the first rank. Raises `DiskError`."""
        with collecting(self.run, self.optimizer, self.ranks, state.updates) as collected:
            by_first(self.ranks, lambda: self.saver.save(state, collected))

    def try_to_save(self, state: TrainingState, note: Callable[[str], None]) -> None:
        """Save, and where the disk is full or broken `note` it once: the next save tries again."""
        with collecting(self.run, self.optimizer, self.ranks, state.updates) as collected:
            by_first(self.ranks, lambda: self.saver.try_to_save(state, note, collected))
            self.ranks.tick(False)

    def adopt(self, state: TrainingState) -> TrainingState:
        """Return the state of the first rank, and take over its weights."""
        adopted = TrainingState(**self.ranks.adopt(asdict(state), [self.parameters.master]))
        self.optimizer.adopt()
        self.parameters.refresh()
        return adopted

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None]) -> TrainingState:
        """Load a checkpoint and return its state; `note` is told of best weights that were not there."""
        state = load_state(checkpoint, self.parameters, self.optimizer)
        self.run.truncate_metrics(state.updates)
        if lost := restore_best(self.run, state, self.parameters, self.optimizer):
            note(lost)
        return state

    def go_back(self, failed: TrainingState, fault: str, note: Callable[[str], None]) -> TrainingState:
        """Return the state of the last checkpoint, or of the first weights, at half the learning rate of `failed`.

        All ranks take it over from the first. Raises `DivergedError` when that was done before, or there is nothing to
        go back to.
        """
        state = by_first(self.ranks, lambda: self._last_good_state(failed, fault, note))
        self.saver.forget()
        return self.adopt(failed if state is None else state)

    def _last_good_state(self, failed: TrainingState, fault: str, note: Callable[[str], None]) -> TrainingState:
        if failed.rate_scale < 1.0:
            raise DivergedError(self._message(failed, msg("{fault}, at half the learning rate as before", fault)))
        if (checkpoint := self.run.latest_checkpoint()) is not None:
            state = self.resume(checkpoint, note)
        elif self.first_weights is not None:
            state = self._start_anew(failed, self.first_weights)
        else:
            raise DivergedError(self._message(failed, fault))
        state.rate_scale, state.skipped = failed.rate_scale / 2, 0
        note(
            msg("{fault} at update {update}; going back to update {restored}, at half the learning rate").fill(
                fault, failed.updates, state.updates
            )
        )
        return state

    def _start_anew(self, failed: TrainingState, weights: Tensor) -> TrainingState:
        self.parameters.master.copy_(weights)
        self.parameters.refresh()
        sizes = self.optimizer.sizes
        self.optimizer.load_state(
            {name: weights if name == "average" else torch.zeros(size) for name, size in sizes.items()}
        )
        state = TrainingState(conditions=failed.conditions)
        state.validation_share, state.next_validation = failed.validation_share, failed.next_validation
        return state

    def _message(self, failed: TrainingState, fault: str) -> str:
        kept = msg("no good state was saved")
        if (checkpoint := self.run.latest_checkpoint()) is not None:
            kept = msg("what was good up to update {step} is saved", checkpoint.step)
        names = ["learning_rate", *(["matrix_learning_rate"] if self.config.optimizer == "muon" else [])]
        usual = TrainingConfig()
        lower = {name: min(getattr(self.config, name) / 10, getattr(usual, name)) for name in names}
        options = " ".join(msg("--set training.{name}={rate:g}", name, rate) for name, rate in lower.items())
        return msg(
            "{path}: {fault}, at update {update}; {kept}; set a lower training.learning_rate and start again in another"
            " --out, for example with {options}"
        ).fill(self.run.path, fault, failed.updates, kept, options)
