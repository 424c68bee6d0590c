"""Compile the C kernels with the system's compiler where the package has none for this processor.

They are kept in a private cache. A failure is remembered, so that it is waited for only once.
"""

import ctypes
import datetime
import hashlib
import math
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import dikkat_runtime.notices as notices
from dikkat_runtime.errors import AbsentError, joined, msg, reason_of
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.native.library_cache import (
    BUILDING,
    SOURCES,
    BusyError,
    Failure,
    cache_folder,
    failure_path,
    flags_of,
    keep_library,
    locked,
    open_library,
    prepare,
    problem_of,
    remember,
    source_digest,
    temporary_folder,
)

# Compile the C sources into a shared library, several at once and within a time limit.

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
    """Compile the sources with `flags` after the usual ones, and link them at `path`, next to which objects are left.

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
    waiting, running, most = deque(commands), list[_Process](), usable_processors()
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


SECONDS_TO_COMPILE = 300.0
"""Time limit for all sources together; `DIKKAT_COMPILE_SECONDS` sets another number."""
SECONDS_FOR_VERSION = 30.0


def find_or_compile(level: str = "native") -> ctypes.CDLL:
    """Return the kernels of a level, compiled at the first call on this computer. Raises `AbsentError`."""
    compiler = _compiler()
    folders = [folder for folder in (cache_folder(), temporary_folder()) if folder is not None]
    problems = {folder: problem_of(folder) for folder in folders}
    believed = [folder for folder in folders if problems[folder] is None]
    _raise_remembered(believed, _stem(compiler, "", level))
    command = [*compiler, "--version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_FOR_VERSION)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{shlex.join(compiler)} --version failed: {_first_line(error)}".rstrip(".")
        raise _remembered(believed, _stem(compiler, "", level), reason, "") from None
    stem = _stem(compiler, answer.stdout, level)
    for folder in believed:
        if (loaded := _loaded_from(folder, stem)) is not None:
            return loaded
    _raise_remembered(believed, stem)
    folder = _first_prepared(folders)
    return _compiled(compiler, answer.stdout, folder, stem, level)


def _compiler() -> list[str]:
    """Return the command of the C compiler: `CC`, `cc`, or that of the package ziglang. Raises `AbsentError`."""
    named = os.environ.get("CC") or "cc"
    if named == "cc" and shutil.which(named) is None and find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise AbsentError(
            msg("CC={command}: {reason}", named, error), msg("give CC the command of a C compiler")
        ) from None
    if not words or shutil.which(words[0]) is None:
        is_usual, missing = named == "cc", msg("there is no {command}, which CC names", named)
        raise AbsentError(msg("no C compiler"), msg("pip install ziglang brings one") if is_usual else missing)
    return words


def _stem(compiler: Sequence[str], version: str, level: str) -> str:
    """Return the beginning of the file names for these sources, this compiler and this level or processor."""
    # a compiler without a version is known by its name alone
    named = f"{source_digest(level)}\n{version or shlex.join(compiler)}"
    return f"kernels-{platform.machine()}-{hashlib.sha256(named.encode()).hexdigest()[:16]}"


def _loaded_from(folder: Path, stem: str) -> ctypes.CDLL | None:
    """Return the library of this folder, or None if there is none. Raises `AbsentError` for one that does not load."""
    opened = open_library(folder, stem)
    if opened is None:
        return None
    # never closed: the loader takes two libraries for one that were loaded from one path
    _, path = opened
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise AbsentError(
            msg("the compiled kernels cannot be loaded: {error}", error), msg("delete {folder}/{name}*", folder, stem)
        ) from None


def _first_prepared(folders: Sequence[Path]) -> Path:
    """Return the first folder that can keep the library; note one that is not the usual cache. Raises `AbsentError`."""
    problems: list[str] = []
    for folder in folders:
        try:
            prepare(folder)
        except OSError as error:
            problems.append(msg("{folder}: {reason}", folder, reason_of(error)) if error.strerror else str(error))
            continue
        if folder != cache_folder():
            why = problems[0] if problems else msg("there is no home folder")
            notices.note(msg("{reason}; the native kernels are kept in {folder}", why, folder))
        return folder
    raise AbsentError(
        joined("; ", problems) if problems else msg("no folder to keep the native kernels in"),
        msg("set XDG_CACHE_HOME to a folder that can be written"),
    )


def _compiled(compiler: Sequence[str], version: str, folder: Path, stem: str, level: str) -> ctypes.CDLL:
    """Return the library, compiled now unless another process was faster. Raises `AbsentError`."""
    seconds = _seconds_to_compile()
    try:
        with locked(folder, seconds):
            if (loaded := _loaded_from(folder, stem)) is not None:
                return loaded
            _raise_remembered([folder], stem)
            try:
                with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as scratch:
                    built = Path(scratch) / "kernels.so"
                    build(compiler, built, level=level, seconds=seconds, on_progress=notices.compiling)
                    keep_library(folder, stem, built)
            except CompileTimeoutError:
                reason = msg("{compiler} took longer than {seconds:g} s", shlex.join(compiler), seconds)
                raise _remembered([folder], stem, reason, version, seconds, timed_out=True) from None
            except CompileError as error:
                reason = msg("{compiler} failed: {error}", shlex.join(compiler), error)
                raise _remembered([folder], stem, reason, version, seconds) from None
            finally:
                notices.stopped_compiling()
            loaded = _loaded_from(folder, stem)
    except BusyError:
        raise AbsentError(
            msg("another process has been compiling them for {seconds:g} s", seconds),
            msg("a later command will find them"),
        ) from None
    except OSError as error:
        raise AbsentError(
            msg("{folder}: {reason}", folder, reason_of(error)), msg("make room or set XDG_CACHE_HOME")
        ) from None
    if loaded is None:
        raise AbsentError(
            msg("{folder}: the library disappears as soon as it is compiled", folder), msg("set XDG_CACHE_HOME")
        )
    return loaded


def _seconds_to_compile() -> float:
    named = os.environ.get("DIKKAT_COMPILE_SECONDS", "")
    try:
        seconds = float(named)
    except ValueError:
        seconds = math.nan
    return seconds if seconds > 0 else SECONDS_TO_COMPILE


def _remembered(
    folders: Sequence[Path], stem: str, reason: str, version: str, seconds: float = 0.0, *, timed_out: bool = False
) -> AbsentError:
    """Write a failure down for the next command, and return the error that reports it."""
    today = datetime.date.today().isoformat()
    failure = Failure(reason, version.partition("\n")[0], today, float(seconds), timed_out)
    for folder in folders:
        try:
            prepare(folder)
            remember(folder, stem, failure)
        except OSError:
            continue
        return AbsentError(reason, _how_to_try_again(failure, failure_path(folder, stem)))
    return AbsentError(reason, msg("this cannot be recorded, so each command tries again"))


def _raise_remembered(folders: Sequence[Path], stem: str) -> None:
    for folder in folders:
        path = failure_path(folder, stem)
        failure = Failure.read(path)
        if failure is None or (failure.timed_out and _seconds_to_compile() > failure.seconds):
            continue
        raise AbsentError(
            failure.reason, msg("seen on {date}; {advice}", failure.date, _how_to_try_again(failure, path))
        )


def _how_to_try_again(failure: Failure, path: Path) -> str:
    again = f"to try again, delete {path}"
    more = f", or give it more with DIKKAT_COMPILE_SECONDS={math.ceil(3 * failure.seconds)}"
    return again + more * failure.timed_out


def _first_line(error: Exception) -> str:
    written = getattr(error, "stderr", None)
    return (written if isinstance(written, str) else "").strip().partition("\n")[0] or str(error)
