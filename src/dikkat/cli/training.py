"""The options that the commands of `dikkat train` share, and how a job is run and reported."""

from __future__ import annotations

import math
import signal
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.processes import resume_command, run_rank
from dikkat.cli.progress import TrainProgress
from dikkat.config import TrainingConfig, merge
from dikkat.config.settings import read_toml
from dikkat.training.distributed.environment import own_rank
from dikkat_runtime.cli.options import Option
from dikkat_runtime.cli.signals import StopSignal
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import Message, UsageError, joined, msg
from dikkat_runtime.hints import NAME, command

if TYPE_CHECKING:
    from dikkat.tasks.common.train import Job, Outcome
    from dikkat.training.distributed.ranks import Ranks

Out = Annotated[Path, Option(help="Run directory to make.")]
Config = Annotated[Path | None, Option(help="TOML file of settings.")]
Set = Annotated[list[str] | None, Option("--set", help="One setting, as model.dropout=0.2; can be repeated.")]
Minutes = Annotated[float | None, Option(help=TrainingConfig.model_fields["minutes"].description)]
Seed = Annotated[int | None, Option(help=TrainingConfig.model_fields["seed"].description)]
WatchText = Annotated[
    list[str] | None,
    Option(
        "--watch-text",
        help="Text whose attention is kept over the training; a translator's with ||| and its "
        "translation. Can be repeated; by default some held-out sentences.",
    ),
]
Resume = Annotated[bool, Option("--resume", help="Continue the unfinished run in --out.")]

Settings = dict[str, dict[str, Any]]


def gather_settings(config: Path | None, assignments: list[str] | None, **training: object) -> Settings:
    """Merge the settings of a file, of `--set`, and of the options of `training` that were used."""
    typed = {name: value for name, value in training.items() if value is not None}
    options = {"training": typed} if typed else {}
    # one part for each process, where nobody says otherwise
    count = own_rank().count
    parts = {"training": {"micro_batches": count}} if count > 1 else {}
    return merge(parts, read_toml(config) if config else {}, parse_settings(assignments or []), options)


def parse_settings(assignments: list[str]) -> Settings:
    """Parse `section.key=value` with the value in TOML (a bare word is text). Raises `UsageError` for another form."""
    settings: Settings = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        section, dot, key = name.partition(".")
        if not (equals and dot and key):
            raise UsageError('--set needs section.key=value, as in model.dropout=0.2, not "{assignment}"', assignment)
        settings.setdefault(section, {})[key] = _parsed(value)
    return settings


def _parsed(value: str) -> object:
    try:
        document = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):  # also a number of thousands of digits, and brackets within brackets
        return value
    # more lines than one would be more settings than one
    return document["value"] if len(document) == 1 else value


def run_job(
    kind: str,
    job: Job,
    out: Path,
    resume: bool,
    started: float,
    ending: Ending,
    device: Device,
    runner: Callable[..., Outcome] | None = None,
    watch_texts: Sequence[str] | None = None,
) -> int:
    """Train, report, and return the exit code.

    `runner` is `train` or something that is called like it. Of several ranks only the first reports.
    """
    if not job.data and not resume:
        raise UsageError("name the data to train on, or add --resume to continue the run in --out")
    info, stop = own_rank(), StopSignal()
    run = partial(_run, kind, job, out, device=device, ending=ending, runner=runner, stop=stop, watch=watch_texts)
    if info.count == 1:
        return run(resume, started)
    if info.launched is not None and not info.restarts:
        started = info.launched

    def train(ranks: Ranks, loading: float) -> int:
        return run(resume, started + loading, ranks=ranks)

    return run_rank(info, stop, train, uses_gpu=device == "cuda")


def _run(
    kind: str,
    job: Job,
    out: Path,
    resume: bool,
    started: float,
    *,
    device: Device,
    ending: Ending,
    runner: Callable[..., Outcome] | None,
    stop: StopSignal,
    watch: Sequence[str] | None,
    ranks: Ranks | None = None,
) -> int:
    """Train on this process, and report unless `ranks` say that another one does."""
    from dikkat.tasks.common.train import train

    typed = command(*(word for word in sys.argv[1:] if word != "--resume"), program=NAME)
    options: dict[str, Any] = {"resume": resume, "device": device, "should_stop": stop, "started": started}
    options |= {"watch_texts": watch or ()}
    if ranks is not None:
        options["ranks"] = ranks
        if not ranks.is_first:
            outcome = train(job, out, TrainProgress(), **options)
            return 0 if outcome.finished else _code_of_stop(stop)
    with TrainProgress() as progress:
        outcome = (runner or train)(job, out, progress, command=typed, **options)
    if not outcome.finished:
        info = own_rank()
        go_on = resume_command(kind, out, device, info.count, info.launcher, info.max_restarts)
        print_note("stopped and saved; continue with: {command}", go_on)
        return stop.exit_code if ranks is None else _code_of_stop(stop)
    for line in ending.lines(out, outcome):
        print(line, file=sys.stderr)
    return 0


def _code_of_stop(stop: StopSignal) -> int:
    """Return the exit code of a rank that stopped: that of SIGTERM where another rank got a signal, as `kill` sends it.

    Ctrl-C reaches all ranks.
    """
    return stop.exit_code if stop.number else 128 + signal.SIGTERM


@dataclass(frozen=True, slots=True)
class Ending:
    """Hold the texts that are printed about a finished run."""

    score: Message
    """Template in which the best score is filled in."""
    following: str
    """Command to try next."""
    sign: float = 1.0
    """By which the best score is multiplied; -1 shows it as a loss."""

    def lines(self, out: Path, outcome: Outcome) -> list[str]:
        """Return the score and the next command; where something is wrong, what it is and what to do about it."""
        best = math.nan if outcome.best_score is None else outcome.best_score
        scored = msg("{out}: {score}", out, self.score.fill(best * self.sign))
        if outcome.problems:
            return [
                msg("{scores}, but {problems}", scored, joined("; ", outcome.problems)),
                msg("for a better one: {advice}", outcome.advice),
            ]
        return [msg("{scores}; try: {command}", scored, self.following)]
