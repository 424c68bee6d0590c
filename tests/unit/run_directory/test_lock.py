"""The lock of a run directory: against others, and for no longer than its holder lives."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import locked_run as locked

HOLD = """
import pathlib, sys
from dikkat_runtime.files import locked_run as locked
with locked(pathlib.Path(sys.argv[1])) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


def test_another_process_is_refused_until_the_holder_is_gone(tmp_path: Path) -> None:
    half = tmp_path / ".writing-model.safetensors-abcd"
    half.write_bytes(b"half")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        refused = pytest.raises(CannotCreateError, match="another process is writing this run; wait until it ends")
        with refused, RunDirectory(tmp_path).alone():
            pass
        assert half.exists()
        holder.kill()
    with RunDirectory(tmp_path).alone() as is_locked:
        assert is_locked
        assert os.listdir(tmp_path) == []


def test_it_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path) as is_held:
        assert is_held


def test_a_file_system_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path) as is_held:
        assert not is_held
