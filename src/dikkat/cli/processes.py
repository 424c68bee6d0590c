"""Start the processes of `--nproc` with torchrun's own launcher, and end each of them with one line at most."""

import functools
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dikkat.cli.rank_endings import has_said, mark_reported
from dikkat.training.distributed.environment import (
    LAUNCHED,
    LAUNCHER,
    MAX_RESTARTS,
    RESTARTS,
    RankInfo,
    is_started_by_torchrun,
    own_rank,
)
from dikkat_runtime.cli.signals import Interrupted, StopSignal, sigint_blocked
from dikkat_runtime.errors import StoppedError, UsageError, msg
from dikkat_runtime.files import write_errors
from dikkat_runtime.hints import command, without_options
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.process_signals import end_with_parent, signals_held

if TYPE_CHECKING:
    from dikkat.training.distributed.ranks import Ranks

_OPTIONS = ("--nproc", "--max-restarts", "--launcher")
_PASSED_ON_WITHIN = 2.0
"""Seconds in which torchrun passes a signal on; it looks ten times a second, on a busy machine more seldom."""
Launcher = Literal["torchrun", "ray"]


def with_processes(kind: str, train: Callable[..., int]) -> Callable[..., int]:
    """Let a command of `dikkat train` start several ranks where its options, `TrainOptions`, ask for them."""

    @functools.wraps(train)
    def command(**options: Any) -> int:
        training = options.get("training")
        if training is not None and wants_processes(training.nproc, training.max_restarts, training.launcher):
            count, restarts = training.nproc or 1, training.max_restarts
            return launch(kind, training.out, count, restarts, training.device, training.resume, training.launcher)
        if own_rank().launched is not None:
            # ranks whose launcher is gone would hold the run until they next ask for what it kept for them;
            # one that a worker of Ray started does not know its launcher
            end_with_parent(int(os.environ["TORCHELASTIC_RUN_ID"]) if is_started_by_torchrun() else None)
        return train(**options)

    return command


def run_rank(info: RankInfo, stop: StopSignal, train: "Callable[[Ranks, float], int]", uses_gpu: bool) -> int:
    """Run `train` as one of several ranks and return its exit code; signals that another rank caused are not reported.

    `train` gets the seconds that this rank took to load the kernels, which may mean to compile them.
    """
    from dikkat.tasks.common.train import seconds_to_load_kernels
    from dikkat.training.distributed.process_group import joined
    from dikkat.training.distributed.ranks import LostRankError

    is_launched = info.launched is not None
    stop.same_within = _PASSED_ON_WITHIN
    if not info.is_first:
        stop.quiet_signals = frozenset(signal.Signals)
    elif is_launched:
        # the launcher ends the ranks that are left by it
        stop.quiet_signals = frozenset({signal.SIGTERM})
    # before the ranks wait for each other
    loading = seconds_to_load_kernels()
    try:
        with joined(info, uses_gpu) as ranks:
            code = train(ranks, loading)
            if info.is_first:
                mark_reported()
            return code
    except LostRankError as error:
        if info.is_first and not is_launched and not error.explained_by:
            raise
        return error.explained_by or error.exit_code
    except Interrupted as interrupt:
        if info.is_first and not is_launched:
            raise
        return interrupt.exit_code


def wants_processes(count: int | None, max_restarts: int, launcher: Launcher = "torchrun") -> bool:
    """Return whether a training is to be started as several ranks.

    Raises `UsageError` for restarts of a training that is a single process, which nobody watches, or starts.
    """
    several = (count or 1) > 1
    if launcher != "torchrun" and not several:
        raise UsageError("--launcher {launcher} is for --nproc 2 or more; leave it out for a single process", launcher)
    if max_restarts and not several:
        raise UsageError("--max-restarts is for --nproc 2 or more; continue with --resume after a single process ended")
    return several


def launch(
    kind: str, out: Path, count: int, max_restarts: int, device: str, resume: bool, launcher: Launcher = "torchrun"
) -> int:
    """Start this command anew as `count` ranks, each with its share of the cores, and return the exit code.

    Raises `UsageError` for more ranks than cores, `CannotCreateError` for an `out` that holds something that is not to
    be taken up, `MissingInputError` where no Ray answers, and `StoppedError` when a rank was lost.
    """
    if own_rank().count > 1:
        raise UsageError("--nproc starts processes by itself; leave it out under torchrun")
    from dikkat.run_directory.checkpoints import require_writable

    if launcher == "ray" and device != "cpu":
        raise UsageError("--launcher ray computes on processors; leave out --device {device}, or --launcher", device)
    cores = usable_processors()
    if launcher == "torchrun" and device == "cpu" and count > cores:
        raise UsageError(
            "--nproc {count}: this machine has {cores} cores to compute on; give at most --nproc {cores}", count, cores
        )
    # what is there after this is the run of this command, and ranks that are started again take it up
    with write_errors(out):
        if out.exists():
            require_writable(out, resume)
    words = without_options(sys.argv[1:], _OPTIONS)
    again = resume_command(kind, out, device, count, launcher, max_restarts)
    with _environment_restored():
        os.environ |= {LAUNCHER: launcher, MAX_RESTARTS: str(max_restarts)}
        if launcher == "ray":
            return _start_with_ray(count, max_restarts, words, again)
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // count)))
        return _start_with_torchrun(count, max_restarts, words, again)


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Leave no variable to whatever this process does after its ranks, which would take it for one of them."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def resume_command(kind: str, out: Path, device: str, count: int, launcher: str, max_restarts: int) -> str:
    """Return the command line that goes on with the training in `out`, by `count` processes that `launcher` starts.

    It asks for as many restarts as the training had that was stopped.
    """
    where = [] if device == "cpu" else ["--device", device]
    processes = [] if count == 1 else ["--nproc", str(count)]
    restarts = [] if not max_restarts else ["--max-restarts", str(max_restarts)]
    started_by = [] if launcher == "torchrun" else ["--launcher", launcher]
    return command("train", kind, "--out", out, "--resume", *where, *processes, *restarts, *started_by)


def _start_with_ray(count: int, max_restarts: int, words: Sequence[str], again: str) -> int:
    from dikkat.cli.ray_processes import RayLauncher, require_ray_train

    with ExitStack() as ending:
        # the modules of Ray crash at the end of a process that was interrupted while it loaded them
        with signals_held():
            require_ray_train()
            ray = RayLauncher(count, words, again)
            ending.callback(ray.close)

        def start() -> int:
            codes = ray.start()
            return exit_code_of(codes, again) if codes else 0

        return with_restarts(start, max_restarts)


def _start_with_torchrun(count: int, max_restarts: int, words: Sequence[str], again: str) -> int:
    """Start ranks, and again after one was lost, not after an error of the user; `again` is told to go on by hand."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # they log what the ranks say themselves
    for name in logging.root.manager.loggerDict:
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def start(logs: str) -> int:
        config = LaunchConfig(
            1,
            1,
            count,
            run_id=str(os.getpid()),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            shutdown_timeout=300,
            logs_specs=DefaultLogsSpecs(logs),
        )
        try:
            with sigint_blocked():
                elastic_launch(config, sys.executable)("-m", "dikkat", *words)
        except ChildFailedError as error:
            code = exit_code_of({rank: failure.exitcode for rank, failure in error.failures.items()}, again)
        except SignalException as end:
            code = 128 + end.sigval
        else:
            return 0
        if code > 128 and not has_said(Path(logs)):
            raise Interrupted(code - 128)
        return code

    try:
        try:
            # without a folder of its own the launcher makes one for each start, and leaves it
            with tempfile.TemporaryDirectory(prefix="dikkat-") as logs:
                return with_restarts(lambda: start(logs), max_restarts)
        finally:
            # torchrun leaves its handlers, whose error is caught here only; a signal may still come after this
            StopSignal()
    except SignalException as end:
        raise Interrupted(end.sigval) from None


def with_restarts(start: Callable[[], int], max_restarts: int) -> int:
    """Call `start`, and again so many times while it raises `StoppedError`; returns the exit code that it returns.

    The environment tells the ranks that it starts when that was, and how often it was before.
    """
    restarts = 0
    while True:
        os.environ |= {LAUNCHED: str(time.monotonic()), RESTARTS: str(restarts)}
        try:
            return start()
        except StoppedError:
            if restarts == max_restarts:
                raise
        restarts += 1
        print(msg("a process was lost; restarting from the last checkpoint"), file=sys.stderr, flush=True)


def exit_code_of(codes: Mapping[int, int], again: str) -> int:
    """Return the exit code of ranks that ended with `codes`, by rank, where one of them has said why.

    Raises `StoppedError` where none has: a rank was killed, or did not answer any more.
    """
    ended = {128 + number for number in signal.Signals}
    if said := [code for code in codes.values() if code > 0 and code != StoppedError.exit_code and code not in ended]:
        return said[0]
    # the launcher itself ends the others by SIGTERM
    for rank, code in codes.items():
        if code < 0 and code != -signal.SIGTERM:
            name = signal.Signals(-code).name
            raise StoppedError(
                "process {rank} was ended by {name}; everything since the last checkpoint is lost; continue "
                "with: {command}"
            ).fill(rank, name, again)
    stopped = [code for code in codes.values() if code in ended]
    if stopped and all(code in ended or code == -signal.SIGTERM for code in codes.values()):
        return stopped[0]
    raise StoppedError(
        "a process stopped responding; everything since the last checkpoint is lost; continue with: {command}", again
    )
