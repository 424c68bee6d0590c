"""Train any kind of model from a user's data to a finished run directory; a `Job` is what differs by kind."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from dikkat.config import RunConfig, TrainingConfig, build_config, preset
from dikkat.data.cleaning import CleaningReport
from dikkat.explain.plots import plot_training
from dikkat.kernels.gpu import choice
from dikkat.kernels.gpu.choice import why_absent as why_no_triton
from dikkat.kernels.library import library, why_absent
from dikkat.kernels.processor import give_back_freed_memory, keep_freed_memory
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_metadata
from dikkat.tasks.common.card import (
    MANY_TIMES,
    MORE_TIMES,
    Ending,
    is_no_better_than_baseline,
    longer_run,
    problems,
    training_facts,
)
from dikkat.tasks.common.device import device_name, find_device
from dikkat.tasks.common.map_history import MapKeeper, watched_pairs
from dikkat.tasks.common.members import require_translator, train_members
from dikkat.tasks.common.settings import Request, run_config
from dikkat.tasks.common.speed_trial import (
    LEARNING_SHARE,
    PrecisionTrial,
    advised_minutes,
    needed_updates,
    seconds_of_trial,
    trial_line,
    try_precisions,
)
from dikkat.training.budget import Budget, RunningClock, TimeBudget, UpdateBudget
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.loop import Trainer
from dikkat.training.precision import precision_of
from dikkat.training.saving import checksum
from dikkat.training.task import StepReport, Task, Watcher
from dikkat_runtime import __version__
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionRecord
from dikkat_runtime.errors import DikkatError, DiskError, StoppedError, UsageError, joined, msg, plural
from dikkat_runtime.run.manifest import checksum_of_entries, listed
from dikkat_runtime.run.parts import MEMBERS

# The conditions that decide whether a resumed run is the same bit for bit.


def conditions_of(trainer: Trainer) -> dict[str, str]:
    """Return the conditions that `trainer` computes under, by name."""
    device = trainer.parameters.master.device
    conditions = {"processor": device_name(device), "numbers": str(trainer.precision), "torch": torch.__version__}
    if device.type == "cpu":
        conditions["threads"] = str(torch.get_num_threads())
        conditions["engine"] = "torch" if library() is None else "native"
    else:
        conditions["engine"] = "torch" if choice.why_absent() else "triton"
    return conditions


def what_differs(before: dict[str, str], now: dict[str, str]) -> str:
    """Return one line that names the conditions that changed since the run began, or ""."""
    names = sorted(name for name in before if before[name] != now.get(name))
    if not names:
        return ""
    differences = joined(
        ", ",
        (msg("{name} {value} instead of {before}", name, now.get(name, "unknown"), before[name]) for name in names),
    )
    return msg("resumed with {differences}: the model will be as good, but not the same bit for bit", differences)


_UNLOCKED = msg("{out} cannot be locked on its file system; make sure that nothing else trains in it")
_RESUMING = msg("resuming with the data and settings in {out}; those of the command line are not read")
FIRST_UPDATES = 3
"""Updates that are timed. The first is left out, since it includes one-time costs."""
LONG_UPDATE = 2.0
"""Seconds of an update that is long enough to be judged alone."""


class TimeLimitWatcher:
    """Forward every report to `inner`, and warn once if the time limit leaves too few updates."""

    def __init__(self, inner: Watcher, config: RunConfig, batches_per_epoch: int, can_shrink: bool) -> None:
        self._inner = inner
        self.note, self.validation = inner.note, inner.validation
        self._config = config
        self._batches = batches_per_epoch
        self._can_shrink = can_shrink
        self._seconds: list[float] = []
        self._is_done = config.training.minutes is None

    def step(self, report: StepReport) -> None:
        """Forward the report of an update, and time the first ones."""
        self._inner.step(report)
        if self._is_done or report.seconds_left is None:
            return
        self._seconds.append(report.seconds)
        if len(self._seconds) < FIRST_UPDATES and report.seconds < LONG_UPDATE:
            return
        self._is_done = True
        if warning := self._warning(max(1e-6, min(self._seconds[1:] or self._seconds)), report.seconds_left):
            self.note(warning)

    def _warning(self, seconds: float, left: float) -> str:
        training, done = self._config.training, len(self._seconds)
        needed = needed_updates(self._config, self._batches)
        fitting = done + int(LEARNING_SHARE * left / seconds)
        if fitting >= needed:
            return ""
        minutes = advised_minutes(training.minutes or 0.0, fitting, needed, seconds)
        smaller = msg("a smaller model, such as --preset tiny, or ") if self._can_shrink else ""
        passes = fitting * training.accumulate / self._batches
        return msg(
            "too little time: at {seconds:.2g} s per update there is time for about {updates} ({passes:.2g} "
            "passes), but a useful model needs some {needed:,}; give {smaller}--minutes {minutes}"
        ).fill(seconds, plural(fitting, "update"), passes, needed, smaller, minutes)


class SilentWatcher:
    """Ignore what happens, on ranks that are not the first; see `Watcher`."""

    def note(self, *heard: object, **named: object) -> None:
        return None

    step = validation = note


def require_parts(run: RunDirectory, config: TrainingConfig, count: int) -> None:
    """Raise `UsageError` where there are more ranks than parts of a micro-batch."""
    if count > config.micro_batches:
        raise UsageError(
            "{path}: its micro-batches are cut into {micro_batches} (training.micro_batches), which {count} "
            "processes cannot share; give --nproc {micro_batches}, or start again in another --out"
        ).fill(run.path, config.micro_batches, count)


def begin_together(ranks: Ranks, run: RunDirectory, started: float) -> float:
    """Compare what the ranks are about to train on; returns when the first one started. Raises `DataError`."""
    # what a rank sees of the data: the checksums that the preparation wrote, and how long the files are
    sizes = {name: (run.path / name).stat().st_size if (run.path / name).exists() else -1 for name in listed(run.path)}
    facts = {
        "settings": checksum_of_entries(run.read_config()),
        "data": checksum_of_entries({name: [sizes[name], str(entry)] for name, entry in listed(run.path).items()}),
        "dikkat": __version__,
    }
    ranks.check_same(facts, str(run.path))
    (started,) = ranks.share([started])
    return started


END_RESERVE = 2.5
"""Seconds kept for the picture, the card and the end of the process; the trial of precisions has its own."""


class Job(Protocol):
    """Describe how one kind of model is trained from a user's data."""

    @property
    def request(self) -> Request:
        """Return what the user asks for."""

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        """Write everything that training reads into `run`, config.json last.

        The user's data is not read again after this.
        """

    def task(self, run: RunDirectory, config: RunConfig) -> Task:
        """Return the training task with a new model."""

    def facts(self, task: Any, config: RunConfig) -> dict[str, str]:
        """Return facts about `task` to print before the first update, by name."""

    def shortcomings(self, task: Any) -> tuple[str, ...]:
        """Return what is wrong with the data of `task`, each as a clause of a sentence."""

    def precision_trial(self, run: RunDirectory, config: RunConfig) -> PrecisionTrial | None:
        """Return the trial of a finished run in float32 and int8, or None; called where the native engine can run."""

    def remarks(self, run: RunDirectory, rows: list[dict[str, Any]]) -> list[str]:
        """Return what a user should know of the finished run, one line each."""

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        """Return the model card of the finished run as Markdown."""


class TrainWatcher(Watcher, Protocol):
    """Watch the preparation as well as the training."""

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None:
        """Receive the settings, the cleaning report and the facts when the data is ready."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold how a training run ended."""

    finished: bool
    """False if the run was stopped; it can be resumed."""
    best_score: float | None
    """Best score of the validations; None if the run was stopped before the first."""
    problems: tuple[str, ...] = ()
    """What is wrong with a finished run, each as a clause of a sentence."""
    advice: str = ""
    """Command that makes a better run; empty if nothing is wrong."""


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
    ranks: Ranks = ONE_PROCESS,
    watch_texts: Sequence[str] = (),
) -> Outcome:
    """Prepare the data, train, validate, and leave a run directory at `out`.

    `started` is when the time limit began to count (`time.monotonic`), without the time to compile the kernels, once on
    each machine. `command` made the run, for its card. The maps of `watch_texts` are kept over the training. Of several
    `ranks` the first does all but the gradients of the others, which hear nothing of `watcher` and return an empty
    outcome. Raises the errors of every step.
    """
    started = time.monotonic() if started is None else started
    where = find_device(device)
    if not ranks.is_first:
        return _train_worker_rank(job, RunDirectory(out), ranks, where, should_stop)
    started += seconds_to_load_kernels(uses_gpu=where.type != "cpu")
    is_new = not out.exists()
    is_again = ranks.has_begun and not is_new
    resume = resume or is_again
    with ExitStack() as held:
        with ranks.leading():
            run = RunDirectory.create(out, resume=resume)
            if not held.enter_context(run.alone()):
                watcher.note(_UNLOCKED.fill(out))
            ranks.mark_begun()
            was_prepared = resume and run.has_config
            is_member = out.parent.name == MEMBERS
            if was_prepared and not (is_again or is_member) and (job.request.data or job.request.has_settings):
                watcher.note(_RESUMING.fill(out))
            config, report = _settings(job, run, was_prepared, is_new, command)
            require_parts(run, config.training, ranks.count)
            require_translator(run, config.training, ranks.count)
        if was_prepared and not run.checkpoint_folders():
            # prepared, but never trained: its whole time is left, or a small budget would never see an update
            started = time.monotonic()
        started = begin_together(ranks, run, started)
        trainer = _trainer(job, run, config, started, where, ranks)
        with ranks.leading():
            watcher.prepared(config, report, {**job.facts(trainer.task, config), "numbers": _numbers(trainer)})
            _resume(trainer, run, watcher)
            pairs = watched_pairs(run, config, trainer.model, watch_texts)
            trainer.observer = MapKeeper(run, pairs, trainer.state.updates)
        _adopt(trainer)
        batches = trainer.task.batches_per_epoch
        time_limit_watcher = TimeLimitWatcher(watcher, config, batches, can_shrink=_can_shrink(run, config))
        finished = trainer.train(time_limit_watcher, should_stop, started)
        train_one = partial(train, job, watcher=watcher, resume=True, device=device, should_stop=should_stop)
        if not (finished and train_members(run, config, watcher, lambda path: train_one(path).finished, should_stop)):
            return Outcome(False, trainer.state.best_score)
        _finish(job, run, trainer, config, watcher)
        return _outcome(job, run, trainer, config)


def _train_worker_rank(
    job: Job, run: RunDirectory, ranks: Ranks, device: torch.device, should_stop: Callable[[], bool]
) -> Outcome:
    """Train on a rank that is not the first, from the run that the first one prepares."""
    ranks.await_first()
    run = RunDirectory.open(run.path)
    config = run_config(run.read_config(), str(run.config))
    started = begin_together(ranks, run, 0.0)
    trainer = _trainer(job, run, config, started, device, ranks)
    ranks.await_first()
    _adopt(trainer)
    return Outcome(trainer.train(SilentWatcher(), should_stop, started), None)


def _adopt(trainer: Trainer) -> None:
    """Let all ranks begin where the first one does."""
    trainer.adopt()
    if isinstance(trainer.budget, TimeBudget):
        trainer.budget.already = trainer.state.seconds


def seconds_to_load_kernels(*, uses_gpu: bool = False) -> float:
    """Load the kernels, those of a GPU too, which may mean to compile them; returns how long that took."""
    before = time.monotonic()
    library()
    if uses_gpu:
        why_no_triton()
    return time.monotonic() - before


def _settings(
    job: Job, run: RunDirectory, was_prepared: bool, is_new: bool, command: str
) -> tuple[RunConfig, CleaningReport | None]:
    """Of the run that is taken up, or of a new one, which is prepared."""
    if was_prepared:
        return run_config(run.read_config(), str(run.config)), None
    if not job.request.data:
        raise UsageError("{path}: its preparation was interrupted; give the data again, with --resume", run.path)
    try:
        prepared = job.prepare(run)
    except DikkatError:
        if is_new:
            run.remove_if_empty()
        raise
    if command:
        run.write_config({**run.read_config(), "command": command})
    return prepared


def _trainer(
    job: Job, run: RunDirectory, config: RunConfig, started: float, device: torch.device, ranks: Ranks
) -> Trainer:
    keep_freed_memory()
    task, settings = job.task(run, config), config.training
    task.model.to(device)
    budget = _budget(settings, task.batches_per_epoch, started, ranks)
    return Trainer(task, run, settings, budget, precision_of(settings, task.model, device), ranks)


def _resume(trainer: Trainer, run: RunDirectory, watcher: TrainWatcher) -> None:
    """Go on from the newest sound checkpoint, if there is one."""
    now, checkpoint = conditions_of(trainer), run.latest_checkpoint()
    for note in run.resume_from(checkpoint):
        watcher.note(note)
    if checkpoint:
        for problem in checkpoint.problems:
            watcher.note(msg("{problem}; going back to {name}", problem, checkpoint.path.name))
        trainer.resume(checkpoint, watcher.note)
        watcher.note(msg("resumed at update {updates}", trainer.state.updates))
        if difference := what_differs(trainer.state.conditions, now):
            watcher.note(difference)
    else:
        trainer.state.conditions = now


def _budget(config: TrainingConfig, batches_per_epoch: int, started: float, ranks: Ranks) -> Budget:
    clock = ranks.clock(RunningClock())
    if config.minutes is not None:
        seconds = config.minutes * 60.0
        return TimeBudget(max(1.0, seconds - END_RESERVE - seconds_of_trial(seconds)), started, clock=clock)
    updates = config.max_updates or max(1, round(config.max_epochs * batches_per_epoch / config.accumulate))
    return UpdateBudget(updates, clock)


def _can_shrink(run: RunDirectory, config: RunConfig) -> bool:
    """Whether there is a preset that is smaller, for this kind of model."""
    has_preset = run.read_config().get("task", "translator") != "classifier"
    return has_preset and config.model.model_dim > build_config(preset("tiny")).model.model_dim


def _numbers(trainer: Trainer) -> str:
    device = trainer.parameters.master.device
    if device.type != "cpu":
        engine = (
            msg("torch kernels, not Triton's: {reason}", absent)
            if (absent := why_no_triton())
            else msg("Triton kernels")
        )
        return joined(", ", (trainer.precision, device_name(device), engine))
    engine = msg("torch kernels, not native: {reason}", absent) if (absent := why_absent()) else msg("native kernels")
    threads = plural(torch.get_num_threads(), "thread")
    if trainer.ranks.count > 1:
        threads = msg("{count} processes of {threads}", trainer.ranks.count, threads)
    return joined(", ", (trainer.precision, threads, device_name(device), engine))


def _finish(job: Job, run: RunDirectory, trainer: Trainer, config: RunConfig, watcher: TrainWatcher) -> None:
    """Draw the curves, try eight bits and write the card, once the weights that it tells of are known to be there."""
    rows = run.read_metrics()
    if not rows:
        raise StoppedError(
            "{path}: its time was up before the first update; the prepared data is kept: continue with --resume, "
            "or start again with more --minutes and another --out"
        ).fill(run.path)
    # the weights of a finished adaptation are an average of what was written
    is_adapted = bool(data_source(run.read_config(), run.config).get("adapted"))
    is_averaged = is_adapted and "share" in read_metadata(run.weights)
    if trainer.state.best_sha256 and not is_averaged and checksum(run.weights) != trainer.state.best_sha256:
        raise DiskError(
            "{weights}: does not read back as it was written; check the disk, and continue with --resume", run.weights
        )
    plot_training(rows, run.path / "training.png", title=run.path.name)
    card, remarks = job.card(run, rows), job.remarks(run, rows)
    for remark in remarks:
        watcher.note(remark)
    card += "".join(f"\n{remark[:1].upper()}{remark[1:]}.\n" for remark in remarks)
    if record := _tried(job, run, config):
        run.write_text(run.precision.name, record.json())
        watcher.note(trial_line(record))
        card += f"\n{trial_line(record)}.\n"
    run.write_card(card + "\n".join([*training_facts(run.read_config()), ""]))


def _tried(job: Job, run: RunDirectory, config: RunConfig) -> PrecisionRecord | None:
    """What eight bits cost the finished run; None where that cannot be measured."""
    if why_not_native(run.read_config(), str(run.config)) is not None:
        return None
    if (trial := job.precision_trial(run, config)) is None:
        return None
    # what the updates have freed would stand beside the engines of the trial
    give_back_freed_memory()
    minutes = config.training.minutes
    return try_precisions(run, trial, math.inf if minutes is None else seconds_of_trial(minutes * 60.0))


def _outcome(job: Job, run: RunDirectory, trainer: Trainer, config: RunConfig) -> Outcome:
    best = trainer.state.best_score
    if best is None:
        return Outcome(True, None)
    rows, overhead = run.read_metrics(), trainer.timer.overhead_share
    seconds = trainer.state.seconds
    ending = Ending(rows, best, trainer.task.baseline(), overhead, seconds, job.shortcomings(trainer.task))
    if not (reasons := problems(ending)):
        return Outcome(True, best)
    settings = run.read_config()
    kind, source = settings.get("task", "translator"), data_source(settings, run.config)
    # who adapts asks for passes over new pairs, which the corpus holds so many times
    passes = (source.get("adapted") or {}).get("repeats", 1) * config.training.max_epochs
    training = config.training.model_copy(update={"max_epochs": passes})
    times = MANY_TIMES if is_no_better_than_baseline(ending) else MORE_TIMES
    minutes = _minutes_needed(config, trainer, rows[-1]["step"], seconds * (1.0 - overhead))
    command = longer_run(settings.get("command", ""), kind, source["data"], run.path, training, times, minutes)
    return Outcome(True, best, tuple(reasons), command)


def _minutes_needed(config: RunConfig, trainer: Trainer, updates: int, seconds: float) -> int | None:
    """What was advised when the run began, for one whose time has held too few updates."""
    needed = needed_updates(config, trainer.task.batches_per_epoch)
    if config.training.minutes is None or not 0 < updates < needed:
        return None
    return advised_minutes(config.training.minutes, updates, needed, seconds / updates)
