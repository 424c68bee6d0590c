"""Train any kind of model from a user's data to a finished run directory; what is special to a kind is its `Job`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from dikkat.config import Device, RunConfig, TrainingConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.errors import DikkatError, StoppedError, UsageError
from dikkat.explain.plots import plot_training
from dikkat.native.library import why_absent
from dikkat.native.processor import keep_freed_memory
from dikkat.pipelines.device import device_name, find_device
from dikkat.pipelines.settings import run_config
from dikkat.run_directory import RunDirectory
from dikkat.training.budget import Budget, TimeBudget, UpdateBudget
from dikkat.training.loop import Trainer, Watcher
from dikkat.training.precision import precision_of
from dikkat.training.task import Task

END_RESERVE = 3.0
"""Seconds kept for the picture, the card and the end of the process."""


class Job(Protocol):
    """One kind of model to train, from what the user gave."""

    @property
    def data(self) -> tuple[str, ...]:
        """The data as named by the user; empty when a run is taken up again."""
        ...

    @property
    def has_settings(self) -> bool:
        """Whether the user set anything."""
        ...

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        """Fill `run` with all that training reads, config.json last; nothing else is read again after this."""
        ...

    def task(self, run: RunDirectory, config: RunConfig) -> Task:
        """What is learned, with a new model."""
        ...

    def facts(self, task: Any, config: RunConfig) -> dict[str, str]:
        """What is worth knowing of `task`, which is what the method `task` gave, before the first update."""
        ...

    def card(self, run: RunDirectory, rows: list[dict[str, Any]], command: str) -> str:
        """The card of the finished run, in Markdown."""
        ...


class TrainWatcher(Watcher, Protocol):
    """Sees the preparation as well."""

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training run ended."""

    finished: bool
    """False if it was stopped; it can be resumed."""
    best_score: float | None
    """Of the validations; None if it was stopped before the first."""


def train(
    job: Job,
    out: Path,
    watcher: TrainWatcher,
    *,
    resume: bool = False,
    device: Device = "cpu",
    should_stop: Callable[[], bool] = lambda: False,
    started: float | None = None,
    command: str = "",
) -> Outcome:
    """Read, prepare, train, validate, and leave a run directory at `out`.

    `started` is when the time limit began to count (`time.monotonic`). Raises the errors of every step.
    """
    started = time.monotonic() if started is None else started
    where = find_device(device)
    is_new = not out.exists()
    run = RunDirectory.create(out, resume=resume)
    with run.alone() as is_locked:
        if not is_locked:
            watcher.note(f"{out} cannot be locked where it lies; see to it that nothing else trains in it")
        config, report = _settings(job, run, watcher, resume, is_new)
        trainer = _trainer(job, run, config, started, where)
        watcher.prepared(config, report, {**job.facts(trainer.task, config), "numbers": _numbers(trainer)})
        _take_up(trainer, run, watcher)
        finished = trainer.train(watcher, should_stop, started)
        if finished:
            _finish(job, run, command)
    return Outcome(finished, trainer.state.best_score)


def _settings(
    job: Job, run: RunDirectory, watcher: TrainWatcher, resume: bool, is_new: bool
) -> tuple[RunConfig, CleaningReport | None]:
    """Of the run that is taken up, or of a new one, which is prepared."""
    if resume and run.has_config:
        if job.data or job.has_settings:
            watcher.note(f"resuming with the data and settings in {run.path}; those of the command line are not read")
        return run_config(run.read_config(), str(run.config)), None
    if not job.data:
        raise UsageError(f"{run.path}: its preparation was interrupted; give the data again")
    try:
        return job.prepare(run)
    except DikkatError:
        if is_new:
            run.remove_if_empty()
        raise


def _trainer(job: Job, run: RunDirectory, config: RunConfig, started: float, device: torch.device) -> Trainer:
    keep_freed_memory()
    task, settings = job.task(run, config), config.training
    task.model.to(device)
    budget = _budget(settings, task.batches_per_epoch, started)
    return Trainer(task, run, settings, budget, precision_of(settings, task.model, device))


def _take_up(trainer: Trainer, run: RunDirectory, watcher: TrainWatcher) -> None:
    """Go on from the newest sound checkpoint, if there is one."""
    checkpoint = run.latest_checkpoint()
    for note in run.take_up(checkpoint):
        watcher.note(note)
    if checkpoint:
        for problem in checkpoint.problems:
            watcher.note(f"{problem}; going back to {checkpoint.path.name}")
        trainer.resume(checkpoint)
        if isinstance(trainer.budget, TimeBudget):
            trainer.budget.already = trainer.state.seconds
        watcher.note(f"resumed at update {trainer.state.updates}")


def _budget(config: TrainingConfig, batches_per_epoch: int, started: float) -> Budget:
    if config.minutes is not None:
        return TimeBudget(max(1.0, config.minutes * 60.0 - END_RESERVE), started)
    return UpdateBudget(config.max_updates or max(1, round(config.max_epochs * batches_per_epoch / config.accumulate)))


def _numbers(trainer: Trainer) -> str:
    device = trainer.parameters.master.device
    if device.type != "cpu":
        return f"{trainer.precision}, {device_name(device)}"
    engine = f"PyTorch alone ({absent})" if (absent := why_absent()) else "native kernels"
    return f"{trainer.precision}, {torch.get_num_threads()} threads, {device_name(device)}, {engine}"


def _finish(job: Job, run: RunDirectory, command: str) -> None:
    rows = run.read_metrics()
    if not rows:
        raise StoppedError(
            f"{run.path}: its time was over before the first update; what is prepared is kept, so --resume has more of"
            " it, or begin anew with more --minutes"
        )
    plot_training(rows, run.path / "training.png", title=run.path.name)
    run.write_card(job.card(run, rows, command))
