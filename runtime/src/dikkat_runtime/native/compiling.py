"""Compile the C sources into a shared library, several at once and within a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from dikkat_runtime.native.sources import SOURCES, flags_of

STEPS = len(SOURCES) + 1
"""Steps of a compilation: one for each source, and linking."""
SECONDS_BETWEEN_LOOKS = 0.02


def openmp_flags(compiler: Sequence[str], seconds: float) -> list[str]:
    """Return the option for OpenMP where the compiler has GNU's, which PyTorch uses; else the kernels use own threads.

    Raises `CompileTimeoutError` after `seconds` seconds, or `OSError`.
    """
    if "-DNO_OPENMP" in flags_of("native"):
        return []
    command = [*compiler, "-fopenmp", "-include", "omp.h", "-dM", "-E", "-x", "c", os.devnull]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise CompileTimeoutError from None
    return ["-fopenmp"] if probe.returncode == 0 and "__clang__" not in probe.stdout else []


class CompileError(Exception):
    """The compiler ended with an error; the message is the first line that it wrote."""


class CompileTimeoutError(Exception):
    """The compilation took longer than its time limit."""


class _Process:
    """One call of the compiler in a process group of its own; its output goes to a file without a name."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._messages: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        # temporary files of the compiler are removed with the folder, even if it is killed
        environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            self._messages.close()
            raise

    def is_over(self) -> bool:
        """Return whether the process ended well. Raises `CompileError` if it failed."""
        code = self._process.poll()
        if code:
            raise CompileError(self._first_line() or f"exit code {code}")
        return code == 0

    def kill(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self._process.wait()
        self._messages.close()

    def _first_line(self) -> str:
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", errors="replace").split("\n")
        # the error follows the line that only names the function
        return next((line.strip() for line in lines if line.strip() and ": In function" not in line), "")


def build(
    compiler: Sequence[str],
    path: Path,
    *flags: str,
    level: str = "native",
    seconds: float,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Compile the sources with `flags` behind the usual ones, and link them at `path`, beside which objects are left.

    Raises `CompileError`, `CompileTimeoutError` after `seconds` seconds, or `OSError`. Whatever is raised, also by a
    signal's handler, no process of the compiler outlives the call.
    """
    deadline = time.monotonic() + seconds
    objects = [path.with_name(f"{source.stem}.o") for source in SOURCES]
    command = [*compiler, *flags_of(level), *openmp_flags(compiler, seconds), *flags]
    compile_all = [[*command, "-c", str(source), "-o", str(to)] for source, to in zip(SOURCES, objects, strict=True)]
    link = [*command, *map(str, objects), "-o", str(path), "-lm"]
    on_progress(0, STEPS)
    _run_all(compile_all, path.parent, deadline, lambda done: on_progress(done, STEPS))
    _run_all([link], path.parent, deadline, lambda done: on_progress(STEPS, STEPS))


def _run_all(
    commands: Sequence[Sequence[str]], folder: Path, deadline: float, on_progress: Callable[[int], None]
) -> None:
    waiting, running, most = deque(commands), list[_Process](), _num_processors()
    try:
        while waiting or running:
            while waiting and len(running) < most:
                running.append(_Process(waiting.popleft(), folder))
            over = [process for process in running if process.is_over()]
            for process in over:
                running.remove(process)
                process.close()
            if over:
                on_progress(len(commands) - len(waiting) - len(running))
            elif time.monotonic() > deadline:
                raise CompileTimeoutError
            else:
                time.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.close()


def _num_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
