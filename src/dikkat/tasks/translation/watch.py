"""Follow a training run with a page: its attention after more and more updates, and the loss."""

from pathlib import Path
from typing import Any

from dikkat.explain.pictures import PAGES, check_format
from dikkat.tasks.common.train import Job, Outcome, TrainWatcher, train
from dikkat.tasks.inspection.over_training import OverTraining
from dikkat.training.task import Validation
from dikkat_runtime.errors import CannotCreateError, DiskError, MissingInputError, msg
from dikkat_runtime.files import probe_next_to, write_atomically, write_errors

REFRESH = 5
"""Seconds after which the page of a running run reloads itself; a local file may not fetch anything."""


def train_watched(job: Job, out: Path, watcher: TrainWatcher, *, page: Path, **how: Any) -> Outcome:
    """Train like `train`, with a `page` that follows the run.

    `how` are the options of `train`. Raises the errors of `train` and `TrainingPage`.
    """
    training_page = TrainingPage(page, out, watcher)
    try:
        return train(job, out, training_page, **how)
    finally:
        training_page.write(running=False)


class TrainingPage:
    """Write the page at `path` after each validation of `run`, and forward every report to `inner`.

    Once training runs, a page that cannot be written is reported and does not stop it. Raises `UsageError` for a suffix
    other than .html, `CannotCreateError` or `DiskError` when `path` cannot be written.
    """

    def __init__(self, path: Path, run: Path, inner: TrainWatcher) -> None:
        check_format(path, PAGES)
        with write_errors(path):
            probe_next_to(path)
        self._path, self._run, self._inner = path, run, inner
        self.prepared, self.note, self.step = inner.prepared, inner.note, inner.step

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Write the page, and forward the result of the validation."""
        self._inner.validation(row, validation_result, is_best)
        self.write(running=True)

    def write(self, *, running: bool) -> None:
        """Write the page of what the run has kept so far; a run that never began has none."""
        try:
            content = OverTraining(self._run).page(REFRESH if running else None)
            write_atomically(self._path, content.encode("utf-8", "replace"))
        except MissingInputError:
            return
        except (CannotCreateError, DiskError) as error:
            self.note(msg("{error}; training goes on without its page", error))
