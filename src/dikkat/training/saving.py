"""Saving during training: the best weights, a row for each validation, and checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dikkat.kernels.processor import give_back_freed_memory
from dikkat.run_directory import RunDirectory
from dikkat.training.distributed.collecting import CollectedFile, not_collected
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.state import TrainingState, save_state
from dikkat_runtime.errors import DataError, DiskError, MissingInputError
from dikkat_runtime.messages import msg


class Saver:
    """Writes best weights, rows and checkpoint, in this order: a checkpoint never tells of what is not on disk.

    What could not be written stays in memory, to be tried again.
    """

    def __init__(self, run: RunDirectory, keep: int) -> None:
        self.run = run
        self.is_behind = False
        """Whether the last save failed."""
        self._keep = keep
        self._best: tuple[int, dict[str, Tensor]] | None = None
        self._rows: list[dict[str, Any]] = []

    def keep_best(self, update: int, tensors: dict[str, Tensor]) -> None:
        """Let the next save write `tensors`, the best weights so far, of that update."""
        self._best = (update, tensors)

    def add_row(self, row: dict[str, Any]) -> None:
        """Let the next save append `row` to the metrics."""
        self._rows.append(row)

    def forget(self) -> None:
        """Drop what was not written yet: the run went back to its last checkpoint."""
        self._best, self._rows = None, []

    def save(
        self,
        state: TrainingState,
        parameters: FlatParameters,
        optimizer: Optimizer,
        collected: CollectedFile = not_collected,
    ) -> None:
        """Write everything. Raises `DiskError`; what is left unwritten can be saved later.

        Of several ranks `collected` returns the file with the optimizer's state of all.
        """
        give_back_freed_memory()
        if self._best is not None:
            update, tensors = self._best
            state.best_sha256 = write_weights(self.run, update, tensors)
            self._best = None
        while self._rows:
            self.run.append_metrics(self._rows[0])
            del self._rows[0]
        save_state(self.run, state, parameters, optimizer, self._keep, collected())
        self.is_behind = False

    def try_to_save(
        self,
        state: TrainingState,
        parameters: FlatParameters,
        optimizer: Optimizer,
        note: Callable[[str], None],
        collected: CollectedFile = not_collected,
    ) -> None:
        """Save, and where the disk is full or broken note it once: the next save tries again."""
        try:
            self.save(state, parameters, optimizer, collected)
        except DiskError as error:
            if not self.is_behind:
                note(msg("{error}; training goes on, and the next save tries again").fill(error))
            self.is_behind = True


def write_weights(run: RunDirectory, update: int, tensors: dict[str, Tensor]) -> str:
    """Write model.safetensors, read it back, and return its checksum. Raises `DiskError`."""
    run.save_weights(tensors, {"step": str(update)})
    try:
        written = run.load_weights()
        is_same = all(torch.equal(written[name], tensor.cpu()) for name, tensor in tensors.items())
    except (DataError, MissingInputError, KeyError):
        is_same = False
    if not is_same:
        raise DiskError("{weights}: writing failed: it does not read back as it was written; check the disk").fill(
            run.weights
        )
    return checksum(run.weights)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or an empty text where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
