"""Saving during training: the best weights, a row for each validation, and checkpoints."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dikkat.kernels.processor import give_back_freed_memory
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import write_vectors
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.state import TrainingState
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError, MissingInputError, msg
from dikkat_runtime.files import temporary_next_to

# Bring the optimizer's state, of which each rank holds a share, into one file on the first rank, piece by piece.

CollectedFile = Callable[[], Path | None]
"""Returns the file of a state that was collected, or None of a single process; raises what kept it from the disk."""


@contextmanager
def collecting(run: RunDirectory, optimizer: Optimizer, ranks: Ranks, step: int) -> Iterator[CollectedFile]:
    """Let the first rank write the state of all next to the checkpoints while the body runs, which moves it on."""
    if ranks.count == 1:
        yield lambda: None
        return
    named = run.path / "optimizer.safetensors"
    path = temporary_next_to(named)
    problems: list[DiskError | CannotCreateError] = []
    # all go through them in the same order
    pieces = {name: optimizer.collect(name) for name in sorted(optimizer.sizes)}
    try:
        if ranks.is_first:
            # the others wait for a slow disk as long as this one beats
            with ranks.leading():
                try:
                    write_vectors(path, optimizer.sizes, pieces, {"step": str(step)}, named)
                except (DiskError, CannotCreateError) as error:
                    problems.append(error)
                _go_through(pieces.values())
        else:
            _go_through(pieces.values())
            ranks.await_first()

        def file() -> Path:
            if problems:
                raise problems[0]
            return path

        yield file
    finally:
        path.unlink(missing_ok=True)


def _go_through(vectors: Iterable[Iterator[Tensor]]) -> None:
    """Send or receive what is left, also where the first rank can no longer write it."""
    for vector in vectors:
        for _ in vector:
            pass


class Saver:
    """Writes best weights, rows and checkpoint, in this order: a checkpoint never tells of what is not on disk.

    What could not be written stays in memory, to be tried again.
    """

    def __init__(self, run: RunDirectory, keep: int, parameters: FlatParameters, optimizer: Optimizer) -> None:
        self.run, self._parameters, self._optimizer = run, parameters, optimizer
        self.is_late = False
        """Whether the last save failed."""
        self._keep = keep
        self.best: tuple[int, dict[str, Tensor]] | None = None
        """The best weights so far with their update, for the next save to write."""
        self.rows: list[dict[str, Any]] = []
        """Rows for the next save to append to the metrics."""

    def forget(self) -> None:
        """Drop what was not written yet: the run went back to its last checkpoint."""
        self.best, self.rows = None, []

    def save(self, state: TrainingState, collected: CollectedFile) -> None:
        """Write everything. Raises `DiskError`; what is left unwritten can be saved later.

        Of several ranks `collected` returns the file with the optimizer's state of all.
        """
        give_back_freed_memory()
        if self.best is not None:
            state.best_sha256 = write_weights(self.run, *self.best)
            self.best = None
        while self.rows:
            self.run.append_metrics(self.rows[0])
            del self.rows[0]
        master = self._parameters.named(self._parameters.master)
        files = {"model": master, "optimizer": collected() or self._optimizer.state()}
        self.run.save_checkpoint(state.updates, files, asdict(state), keep=self._keep)
        self.is_late = False

    def try_to_save(self, state: TrainingState, note: Callable[[str], None], collected: CollectedFile) -> None:
        """Save, and where the disk is full or broken note it once: the next save tries again."""
        try:
            self.save(state, collected)
        except DiskError as error:
            if not self.is_late:
                note(msg("{error}; training goes on, and the next save tries again", error))
            self.is_late = True


def write_weights(run: RunDirectory, update: int, tensors: dict[str, Tensor]) -> str:
    """Write model.safetensors, read it back, and return its checksum. Raises `DiskError`."""
    run.save_weights(tensors, {"step": str(update)})
    try:
        written = run.load_weights()
        is_same = all(torch.equal(written[name], tensor.cpu()) for name, tensor in tensors.items())
    except (DataError, MissingInputError, KeyError):
        is_same = False
    if not is_same:
        raise DiskError("{path}: writing failed: it does not read back as it was written; check the disk", run.weights)
    return checksum(run.weights)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or an empty text where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
