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

from dikkat.cli.processes import Launcher, resume_command, run_rank
from dikkat.cli.progress import TrainProgress
from dikkat.config import TrainingConfig, merge
from dikkat.config.settings import read_toml
from dikkat.training.distributed.environment import own_rank
from dikkat_runtime.cli.opening import DeviceOption
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
Valid = Annotated[
    list[str] | None,
    Option(help="Data to validate on, in the same forms (twice for two files); else held out from DATA."),
]
Settings = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options that the commands of `dikkat train` share; they are among their own."""

    out: Out
    config: Annotated[Path | None, Option(help="TOML file of settings.")] = None
    set_: Annotated[
        list[str] | None, Option("--set", help="A setting, such as model.dropout=0.2; can be repeated.")
    ] = None
    minutes: Annotated[float | None, Option(help=TrainingConfig.model_fields["minutes"].description)] = None
    seed: Annotated[int | None, Option(help=TrainingConfig.model_fields["seed"].description)] = None
    start: Annotated[
        Path | None, Option("--from", help="Run to start from: its weights and tokenizer; also one that was imported.")
    ] = None
    lora: Annotated[
        int | None,
        Option(
            min=1,
            help="Train updates of this rank (LoRA) in place of all weights of --from: less memory, the same size.",
        ),
    ] = None
    device: DeviceOption = "cpu"
    nproc: Annotated[
        int | None, Option(min=1, help="Processes that train together on this machine and share its cores.")
    ] = None
    max_restarts: Annotated[
        int, Option(min=0, help="How often --nproc restarts from the last checkpoint by itself.")
    ] = 0
    launcher: Annotated[
        Launcher, Option(help="What starts the processes of --nproc; ray is the cluster at RAY_ADDRESS, or new.")
    ] = "torchrun"
    resume: Annotated[bool, Option("--resume", help="Continue the unfinished run in --out.")] = False
    watch_text: Annotated[
        list[str] | None,
        Option(
            help="Text whose attention is kept during training; for a translator, TEXT ||| TRANSLATION. Can be "
            "repeated; by default some held-out sentences."
        ),
    ] = None

    @property
    def where(self) -> str:
        """The name of the settings in messages."""
        return str(self.config or "settings")

    def settings(self) -> Settings:
        """Merge the settings of the file, of `--set`, and of the options that were used."""
        asked = {"minutes": self.minutes, "seed": self.seed, "low_rank": self.lora}
        typed = {name: value for name, value in asked.items() if value is not None}
        options = {"training": typed} if typed else {}
        # one part for each process, where nobody says otherwise
        count = own_rank().count
        parts = {"training": {"micro_batches": count}} if count > 1 else {}
        return merge(parts, read_toml(self.config) if self.config else {}, parse_settings(self.set_ or []), options)


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
    options: TrainOptions,
    started: float,
    ending: Ending,
    runner: Callable[..., Outcome] | None = None,
) -> int:
    """Train, report, and return the exit code.

    `runner` is `train` or something that is called like it. Of several ranks only the first reports.
    """
    if not job.request.data and not options.resume:
        raise UsageError("name the data to train on, or add --resume to continue the run in --out")
    info, stop = own_rank(), StopSignal()
    run = partial(_run, kind, job, options.out, device=options.device, ending=ending, runner=runner, stop=stop)
    run = partial(run, watch=options.watch_text or ())
    if info.count == 1:
        return run(options.resume, started)
    if info.launched is not None and not info.restarts:
        started = info.launched

    def train(ranks: Ranks, loading: float) -> int:
        return run(options.resume, started + loading, ranks=ranks)

    return run_rank(info, stop, train, uses_gpu=options.device == "cuda")


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
    watch: Sequence[str],
    ranks: Ranks | None = None,
) -> int:
    """Train on this process, and report unless `ranks` say that another one does."""
    from dikkat.tasks.common.train import train

    typed = command(*(word for word in sys.argv[1:] if word != "--resume"), program=NAME)
    options: dict[str, Any] = {"resume": resume, "device": device, "should_stop": stop, "started": started}
    options |= {"watch_texts": watch}
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
    """Return the exit code of a stopped rank: that of SIGTERM where another rank got the signal, as by `kill`."""
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
                msg("for a better model: {advice}", outcome.advice),
            ]
        return [msg("{scores}; try: {command}", scored, self.following)]
