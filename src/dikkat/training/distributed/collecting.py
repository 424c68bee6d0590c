"""Bring the optimizer's state, of which each rank holds a share, into one file on the first rank, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import write_vectors
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.optimizer import Optimizer
from dikkat_runtime.errors import CannotCreateError, DiskError
from dikkat_runtime.files import temporary_beside

CollectedFile = Callable[[], Path | None]
"""Returns the file of a state that was collected, or None of a single process; raises what kept it from the disk."""


def not_collected() -> Path | None:
    """Return None: a single process holds the whole state."""
    return None


@contextmanager
def collecting(run: RunDirectory, optimizer: Optimizer, ranks: Ranks, step: int) -> Iterator[CollectedFile]:
    """Let the first rank write the state of all beside the checkpoints while the body runs, which moves it on."""
    if ranks.count == 1:
        yield not_collected
        return
    named = run.path / "optimizer.safetensors"
    path = temporary_beside(named)
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
