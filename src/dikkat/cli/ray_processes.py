"""Start the ranks of `--launcher ray`: each worker of Ray Train runs a process like those that torchrun starts."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from dikkat.cli.rank_endings import has_said
from dikkat.training.distributed.environment import LAUNCHED
from dikkat_runtime.cli.signals import Interrupted, StopSignal
from dikkat_runtime.errors import StoppedError, UsageError, msg
from dikkat_runtime.process_signals import end_with_parent, signals_held
from dikkat_runtime.shards.ray_workers import reach_ray

POLL_SECONDS = 0.2
"""Time between two looks at what the ranks say, and at whether they should stop."""
ENDS_WITHIN = 20.0
"""Seconds in which Ray Train ends once Ray itself is shut down."""


def require_ray_train() -> None:
    """Raise `UsageError` where Ray Train is not installed, or what it needs in addition to Ray itself."""
    try:
        import ray.train.torch  # noqa: F401
    except ImportError:
        raise UsageError("--launcher ray needs Ray Train; pip install 'dikkat[ray]'") from None


def threads_that_fit(free: Sequence[int], count: int) -> int:
    """Return the most processors that each of `count` ranks can have on nodes with so many `free`; 0 for too few."""
    fitting = [threads for threads in range(1, max(free, default=0) + 1) if sum(n // threads for n in free) >= count]
    return max(fitting, default=0)


class RayLauncher:
    """Start ranks on the cluster that the environment variable RAY_ADDRESS names, or on this machine.

    Raises `UsageError` where Ray is not installed or has too few processors that are free, and `MissingInputError`
    where no cluster answers.
    """

    def __init__(self, count: int, words: Sequence[str], again: str) -> None:
        self._ray = reach_ray(msg("--launcher ray"), "dikkat", os.environ.get("RAY_ADDRESS", ""))
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        free = [int(node["Resources"].get("CPU", 0)) for node in nodes]
        available = min(sum(free), int(self._ray.available_resources().get("CPU", 0)))
        threads = threads_that_fit(free, count)
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        threads = int(wanted) if wanted.isdecimal() and int(wanted) else threads
        # all threads of a rank are on one node
        if not threads or threads * count > available or sum(n // threads for n in free) < count:
            self.close()
            raise UsageError(
                "--nproc {count} of {threads} threads: Ray has {available} of {processors} processors free; give a "
                "smaller --nproc, or set OMP_NUM_THREADS"
            ).fill(count, max(1, threads), available, sum(free))
        self._count, self._threads, self._again = count, threads, again
        self._words = list(words)

    def start(self) -> dict[int, int]:
        """Run all ranks to their end; returns the exit codes of those that ended badly.

        What they say goes to standard error, the same complaint once. Raises `StoppedError` where Ray lost a worker,
        and `Interrupted` after a signal of which no rank has said what it did.
        """
        stop, failures = StopSignal(), list[Exception]()
        # from now on the first signal stops the ranks, also those that are being started
        stop()
        board = self._ray.remote(_Board).options(num_cpus=0).remote()
        with tempfile.TemporaryDirectory() as storage:
            fit = threading.Thread(target=self._fit, args=(board, storage, failures, stop), daemon=True)
            fit.start()
            try:
                self._follow(fit, board, stop)
            except Interrupted:
                # a second signal; Ray's code crashes in a thread that is left when Python ends
                with signals_held():
                    self.close()
                    fit.join(ENDS_WITHIN)
                raise
        codes, is_said = self._ray.get(board.ends.remote())
        self._ray.kill(board)
        if stop.number is not None:
            if not is_said:
                raise Interrupted(stop.number)
            return dict.fromkeys(range(self._count), stop.exit_code)
        if failures and not any(codes.values()):
            reason = " ".join(str(failures[0]).split())[:200]
            raise StoppedError(
                "Ray lost a process ({reason}); everything since the last checkpoint is lost; continue with: {command}"
            ).fill(reason, self._again)
        return {rank: code for rank, code in codes.items() if code}

    def _follow(self, fit: threading.Thread, board: Any, stop: StopSignal) -> None:
        """Print what the ranks say until they end, and ask them to stop after a signal."""
        said = set[str]()
        while fit.is_alive():
            fit.join(POLL_SECONDS)
            self._pass_on(board, said)
            if stop():
                self._ray.get(board.stop.remote())
        self._pass_on(board, said)

    def close(self) -> None:
        """End Ray where it was started here, and with it all that runs there; a signal is answered after that."""
        with signals_held():
            self._ray.shutdown()

    def _fit(self, board: Any, storage: str, failures: list[Exception], stop: StopSignal) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        own = {name: value for name, value in os.environ.items() if name.startswith("DIKKAT_")}
        variables = own | {"OMP_NUM_THREADS": str(self._threads)}
        trainer = TorchTrainer(
            run_rank_process,
            train_loop_config={"board": board, "words": self._words, "folder": os.getcwd(), "variables": variables},
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=self._count, resources_per_worker={"CPU": self._threads}),
            run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=0)),
        )
        try:
            if not stop():
                trainer.fit()
        except Exception as error:
            # Ray has an error class for each of its parts that may lose a process
            failures.append(error)

    def _pass_on(self, board: Any, said: set[str]) -> None:
        for line in self._ray.get(board.take.remote()):
            if line not in said:
                print(line, file=sys.stderr, flush=True)
            if line.startswith("dikkat: "):
                said.add(line)


class _Board:
    """Hold, in a process of Ray, what the ranks said and how they ended, and whether they should stop."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._codes: dict[int, int] = {}
        self._should_stop = self._is_said = False

    def report(self, lines: Sequence[str]) -> bool:
        """Take lines of a rank; returns whether it should stop."""
        self._lines += lines
        return self._should_stop

    def take(self) -> list[str]:
        """Return the lines that came since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def end(self, rank: int, code: int, is_said: bool) -> None:
        """Note the exit code of a rank, and whether it has said why it ended."""
        self._codes[rank] = code
        self._is_said |= is_said

    def ends(self) -> tuple[dict[int, int], bool]:
        """Return the exit codes of the ranks that ended, and whether one has said why."""
        return self._codes, self._is_said

    def stop(self) -> None:
        self._should_stop = True


def run_rank_process(config: Mapping[str, Any]) -> None:
    """Run the command as the rank that Ray Train's variables name, in a process that ends with this worker.

    The ranks meet in the store of the process group that Ray Train has set up, as they do in that of torchrun's agent.
    """
    import ray

    with tempfile.TemporaryDirectory(prefix="dikkat-") as folder:
        # the name by which torchrun would tell a rank of its folder
        error_file = Path(folder) / "run" / "attempt_0" / "0" / "error.json"
        error_file.parent.mkdir(parents=True)
        variables = {
            **os.environ,
            **config["variables"],
            LAUNCHED: str(time.monotonic()),
            "TORCHELASTIC_RUN_ID": "ray",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_ERROR_FILE": str(error_file),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "dikkat", *config["words"]],
            cwd=config["folder"],
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        )
        _wait_for(process, config["board"])
        ray.get(config["board"].end.remote(int(variables["RANK"]), process.wait(), has_said(Path(folder))))


def _wait_for(process: subprocess.Popen[str], board: Any) -> None:
    """Pass on what a rank says until it ends, and end it by SIGTERM where the launcher asks for that."""
    import ray

    lines: SimpleQueue[str] = SimpleQueue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    is_ended = False
    while reader.is_alive() or not lines.empty():
        reader.join(POLL_SECONDS)
        if ray.get(board.report.remote([lines.get() for _ in range(lines.qsize())])) and not is_ended:
            process.terminate()
            is_ended = True


def _read(process: subprocess.Popen[str], lines: SimpleQueue[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        lines.put(line.rstrip("\n"))
