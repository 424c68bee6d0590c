"""Compile the C kernels with the system's compiler where the package has none for this processor.

They are kept in a private cache. A failure is remembered, so that it is waited for only once.
"""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import math
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dikkat_runtime.errors import AbsentError, reason_of
from dikkat_runtime.messages import joined, msg
from dikkat_runtime.native import notices
from dikkat_runtime.native.compiling import CompileError, CompileTimeoutError, build
from dikkat_runtime.native.library_cache import (
    BUILDING,
    BusyError,
    Failure,
    cache_folder,
    failure_path,
    keep_library,
    locked,
    open_library,
    prepare,
    problem_of,
    remember,
    temporary_folder,
)
from dikkat_runtime.native.sources import source_digest

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
    try:
        version = _version(compiler)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{shlex.join(compiler)} --version failed: {_first_line(error)}"
        raise _remembered(believed, _stem(compiler, "", level), reason, "") from None
    stem = _stem(compiler, version, level)
    for folder in believed:
        if (loaded := _loaded_from(folder, stem)) is not None:
            return loaded
    _raise_remembered(believed, stem)
    folder = _first_prepared(folders)
    return _compiled(compiler, version, folder, stem, level)


def _compiler() -> list[str]:
    """Return the command of the C compiler, as `CC` names it. Raises `AbsentError`."""
    named = os.environ.get("CC") or "cc"
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise AbsentError(
            msg("CC={named}: {error}").fill(named, error), msg("give CC the command of a C compiler")
        ) from None
    if not words or shutil.which(words[0]) is None:
        is_usual, missing = named == "cc", msg("there is no {named}, which CC names").fill(named)
        raise AbsentError(msg("no C compiler"), msg("install one, for example gcc") if is_usual else missing)
    return words


def _version(compiler: Sequence[str]) -> str:
    command = [*compiler, "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_FOR_VERSION).stdout


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
            msg("the compiled kernels cannot be loaded: {error}").fill(error),
            msg("delete {folder}/{stem}*").fill(folder, stem),
        ) from None


def _first_prepared(folders: Sequence[Path]) -> Path:
    """Return the first folder that can keep the library; note one that is not the usual cache. Raises `AbsentError`."""
    problems: list[str] = []
    for folder in folders:
        try:
            prepare(folder)
        except OSError as error:
            problems.append(msg("{folder}: {reason}").fill(folder, reason_of(error)) if error.strerror else str(error))
            continue
        if folder != cache_folder():
            why = problems[0] if problems else msg("there is no home folder")
            notices.note(msg("{why}; the native kernels are kept in {folder}").fill(why, folder))
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
                with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as beside:
                    built = Path(beside) / "kernels.so"
                    build(compiler, built, level=level, seconds=seconds, on_progress=notices.compiling)
                    keep_library(folder, stem, built)
            except CompileTimeoutError:
                reason = msg("{compiler} took longer than {seconds:g} s").fill(shlex.join(compiler), seconds)
                raise _remembered([folder], stem, reason, version, seconds, timed_out=True) from None
            except CompileError as error:
                reason = msg("{compiler} failed: {error}").fill(shlex.join(compiler), error)
                raise _remembered([folder], stem, reason, version, seconds) from None
            finally:
                notices.stopped_compiling()
            loaded = _loaded_from(folder, stem)
    except BusyError:
        raise AbsentError(
            msg("another process has been compiling them for {seconds:g} s").fill(seconds),
            msg("a later command will find them"),
        ) from None
    except OSError as error:
        raise AbsentError(
            msg("{folder}: {reason}").fill(folder, reason_of(error)), msg("make room or set XDG_CACHE_HOME")
        ) from None
    if loaded is None:
        raise AbsentError(
            msg("{folder}: the library is gone as soon as it is compiled").fill(folder), msg("set XDG_CACHE_HOME")
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
    return AbsentError(reason, msg("this cannot be written down, so each command tries again"))


def _raise_remembered(folders: Sequence[Path], stem: str) -> None:
    for folder in folders:
        path = failure_path(folder, stem)
        failure = Failure.read(path)
        if failure is None or (failure.timed_out and _seconds_to_compile() > failure.seconds):
            continue
        raise AbsentError(
            failure.reason,
            msg("seen on {date}; {how_to_try_again}").fill(failure.date, _how_to_try_again(failure, path)),
        )


def _how_to_try_again(failure: Failure, path: Path) -> str:
    again = f"to try again, delete {path}"
    more = f", or give it more with DIKKAT_COMPILE_SECONDS={math.ceil(3 * failure.seconds)}"
    return again + more * failure.timed_out


def _first_line(error: Exception) -> str:
    written = getattr(error, "stderr", None)
    return (written if isinstance(written, str) else "").strip().partition("\n")[0] or str(error)
