"""Compiling, caching and doing without, with compilers of our own making that take no time."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest

from dikkat_runtime import notices
from dikkat_runtime.errors import AbsentError
from dikkat_runtime.native import first_use, library_cache
from dikkat_runtime.native import first_use as compiling
from dikkat_runtime.native.first_use import STEPS

SCRIPT = """#!/bin/sh
case "$*" in *--version*) {version}; exit;; *-dM*) exit;; esac
echo called >> {log}
{before}
while [ $# -gt 0 ]; do [ "$1" = -o ] && to=$2; shift; done
case "$to" in *.o) : > "$to";; *) cp {library} "$to";; esac
"""


@dataclass
class Computer:
    """A cache, a folder for temporary files, a compiler and whoever reads the notices."""

    folder: Path
    kernels: Path
    """What the compiler makes."""
    advice: str = ""
    """What the last command that found no kernels was told to do."""
    notes: list[str] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def cache(self) -> Path:
        return self.folder / "cache" / "dikkat"

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary" / f"dikkat-{os.geteuid()}"

    def install(self, before: str = ":", version: str = "echo compiler 1.0") -> Path:
        """The compiler, which does `before` ahead of its work."""
        path, log = self.folder / "compiler", self.folder / "calls"
        path.write_text(SCRIPT.format(version=version, log=log, before=before, library=self.kernels), encoding="utf-8")
        path.chmod(0o755)
        return path

    def calls(self) -> int:
        """Return the calls of the compiler since the last call of this method."""
        log = self.folder / "calls"
        count = log.read_text(encoding="utf-8").count("called") if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    def command(self) -> tuple[bool, str]:
        """Return whether a command has kernels, and why not. The notices are those of this command."""
        self.notes.clear()
        self.steps.clear()
        try:
            first_use.find_or_compile()
        except AbsentError as error:
            self.advice = error.advice
            return False, error.reason
        return True, ""

    def kept(self) -> list[str]:
        """Names of what is in the cache, but for the lock."""
        return sorted(path.name for path in self.cache.iterdir() if path.name != "lock")

    def compiling(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def stopped_compiling(self) -> None:
        pass

    def note(self, text: str) -> None:
        assert "\n" not in text
        self.notes.append(text)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that can be loaded."""
    compiler, folder = shutil.which("cc"), tmp_path_factory.mktemp("kernels")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "kernels.c").write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    subprocess.run(
        [compiler, "-shared", "-fPIC", str(folder / "kernels.c"), "-o", str(folder / "kernels.so")], check=True
    )
    return folder / "kernels.so"


@pytest.fixture
def computer(tmp_path: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Computer]:
    result = Computer(tmp_path, kernels)
    (tmp_path / "temporary").mkdir()
    monkeypatch.delenv("DIKKAT_COMPILE_SECONDS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(result.install()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = list(notices._listeners)
    notices.listen(result)
    yield result
    notices.listen(before[0] if before else None)


def test_every_source_is_compiled_once_and_the_library_then_read_from_the_cache(computer: Computer) -> None:
    assert computer.command() == (True, "")
    assert computer.calls() == STEPS, "every source, and linking"
    assert computer.steps[0] == (0, STEPS)
    assert computer.steps[-1] == (STEPS, STEPS)
    assert computer.notes == []
    (name,) = computer.kept()
    assert name.startswith(f"kernels-{platform.machine()}-")
    assert computer.command() == (True, "")
    assert (computer.calls(), computer.steps, computer.notes) == (0, [], [])


def test_no_compiler(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert computer.command() == (False, "no C compiler")
    assert computer.advice == "there is no no-such-compiler, which CC names"


def test_the_compiler_of_ziglang_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda command: None)
    monkeypatch.setattr(first_use, "find_spec", lambda name: name == "ziglang" or None)
    assert first_use._compiler() == [sys.executable, "-m", "ziglang", "cc"]
    monkeypatch.setattr(first_use, "find_spec", lambda name: None)
    with pytest.raises(AbsentError, match="no C compiler; pip install ziglang brings one"):
        first_use._compiler()


def test_a_compiler_of_several_words(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"env LANGUAGE=tr '{os.environ['CC']}'")
    assert computer.command() == (True, "")
    monkeypatch.setenv("CC", "cc 'unfinished")
    assert computer.command() == (False, "CC=cc 'unfinished: No closing quotation")


def test_a_compiler_that_fails_is_tried_once_and_its_first_line_remembered(computer: Computer) -> None:
    compiler = computer.install('echo "cannot do that\nsecond line" >&2; exit 1')
    why = f"{compiler} failed: cannot do that"
    assert computer.command() == (False, why)
    assert 1 <= computer.calls() < STEPS
    (name,) = computer.kept()
    assert name.endswith(".failed")
    assert computer.advice == f"to try again, delete {computer.cache / name}"
    assert computer.command() == (False, why)
    assert computer.calls() == 0
    date = json.loads((computer.cache / name).read_text(encoding="utf-8"))["date"]
    assert computer.advice == f"seen on {date}; to try again, delete {computer.cache / name}"
    # what the line says helps
    (computer.cache / name).unlink()
    computer.install()
    assert computer.command() == (True, "")


def test_another_version_of_the_compiler_is_tried(computer: Computer) -> None:
    computer.install("exit 3")
    there, why = computer.command()
    assert not there
    assert why.endswith("failed: exit code 3")
    computer.install(version="echo compiler 1.1")
    assert computer.command() == (True, "")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"reason": 5}', "\x00"], ids=str)
def test_a_damaged_memory_is_none(computer: Computer, content: str) -> None:
    computer.install("exit 1")
    computer.command()
    (computer.cache / computer.kept()[0]).write_text(content, encoding="utf-8")
    computer.install()
    assert computer.command() == (True, "")


def test_a_compiler_that_takes_too_long_is_waited_for_once(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all files together: none of these takes long."""
    # on many processors all would be ready in time
    monkeypatch.setattr(compiling, "usable_processors", lambda: 2)
    compiler = computer.install("sleep 0.5")
    monkeypatch.setenv("DIKKAT_COMPILE_SECONDS", "2.2")
    assert computer.command() == (False, f"{compiler} took longer than 2.2 s")
    assert computer.advice.endswith(".failed, or give it more with DIKKAT_COMPILE_SECONDS=7")
    assert computer.calls() > 1
    assert not (there_and_why := computer.command())[0]
    assert there_and_why[1] == f"{compiler} took longer than 2.2 s"
    assert computer.calls() == 0
    computer.install()
    monkeypatch.setenv("DIKKAT_COMPILE_SECONDS", "60")
    assert computer.command() == (True, "")


def test_a_compiler_that_prints_no_version_is_waited_for_once(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = computer.install(version=f"echo asked >> {computer.folder}/asked; exec sleep 30")
    # long enough for a shell to begin
    monkeypatch.setattr(first_use, "SECONDS_FOR_VERSION", 2.0)
    for _ in range(2):
        there, why = computer.command()
        assert not there
        assert why.startswith(f"{compiler} --version failed: ")
    assert (computer.folder / "asked").read_text(encoding="utf-8") == "asked\n"


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-1], lambda whole: b"\0" + whole[1:]])
def test_a_damaged_library_is_compiled_again_with_a_note(computer: Computer, damage: Callable[[bytes], bytes]) -> None:
    computer.command()
    (name,) = computer.kept()
    path = computer.cache / name
    # another file, as what is loaded must stay as it is
    content = damage(path.read_bytes())
    path.unlink()
    path.write_bytes(content)
    computer.calls()
    assert computer.command() == (True, "")
    assert computer.notes == [f"{path}: damaged; the native kernels are compiled again"]
    assert computer.calls() == STEPS
    assert computer.kept() == [name]


def test_what_others_may_have_written_is_not_loaded(computer: Computer) -> None:
    computer.command()
    (name,) = computer.kept()
    (computer.cache / name).chmod(0o777)
    computer.calls()
    assert computer.command() == (True, "")
    assert computer.calls() == STEPS
    assert not (computer.cache / name).stat().st_mode & 0o022


def test_a_link_instead_of_the_library_is_not_followed(computer: Computer) -> None:
    computer.command()
    path = computer.cache / computer.kept()[0]
    path.rename(computer.folder / "elsewhere.so")
    path.symlink_to(computer.folder / "elsewhere.so")
    computer.calls()
    assert computer.command() == (True, "")
    assert computer.calls() == STEPS
    assert not path.is_symlink()


def test_a_folder_that_others_may_write_into_is_left_for_a_private_one(computer: Computer) -> None:
    computer.cache.mkdir(parents=True)
    computer.cache.chmod(0o777)
    assert computer.command() == (True, "")
    assert computer.notes == [
        f"{computer.cache}: others may write into it (chmod go-w would forbid it);"
        f" the native kernels are kept in {computer.temporary}"
    ]
    assert computer.temporary.stat().st_mode & 0o777 == 0o700
    computer.calls()
    assert computer.command() == (True, "")
    assert (computer.calls(), computer.notes) == (0, []), "told once, compiled once"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_left_for_a_private_one(computer: Computer) -> None:
    computer.command()
    computer.calls()
    os.chown(computer.cache, 12345, 12345)
    assert computer.command() == (True, "")
    assert computer.calls() == STEPS, "what lies there is not loaded"
    assert computer.notes[0].startswith(f"{computer.cache}: belongs to another user (number 12345); the native kernels")


def test_without_any_folder_nothing_is_compiled(computer: Computer) -> None:
    (computer.folder / "cache").write_text("", encoding="utf-8")
    computer.temporary.write_text("", encoding="utf-8")
    for _ in range(2):
        there, why = computer.command()
        assert not there
        assert why.startswith(f"{computer.cache}: Not a directory; ")
        assert computer.advice.endswith("set XDG_CACHE_HOME to a folder that can be written")
    assert computer.calls() == 0


def test_a_full_folder_is_left_before_anything_is_compiled(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (library_cache.BYTES_TO_COMPILE - 1, hard))
    try:
        there, why = computer.command()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not there
    assert why == f"{computer.cache}: File too large; {computer.temporary}: File too large"
    assert computer.calls() == 0


def test_without_a_home_the_private_folder_is_taken(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", unknown)
    assert computer.command() == (True, "")
    assert computer.notes == [f"there is no home folder; the native kernels are kept in {computer.temporary}"]


@pytest.mark.parametrize("named", ["relative/cache", ".", ""])
def test_a_relative_cache_is_ignored(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_cache.cache_folder() == tmp_path / ".cache" / "dikkat"


def test_two_at_once_compile_once(computer: Computer) -> None:
    computer.install("sleep 0.02")
    answers: list[tuple[bool, str]] = []
    threads = [threading.Thread(target=lambda: answers.append(computer.command())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(True, "")] * 2
    assert computer.calls() == STEPS


def test_one_that_waits_too_long_for_another_process_goes_on_without(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIKKAT_COMPILE_SECONDS", "0.2")
    computer.cache.mkdir(parents=True, mode=0o700)
    with (computer.cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert computer.command() == (False, "another process has been compiling them for 0.2 s")
    assert computer.notes[0] == "waiting for another process that compiles the native kernels"
    monkeypatch.delenv("DIKKAT_COMPILE_SECONDS")
    assert computer.command() == (True, ""), "that is not remembered"


def test_what_a_killed_process_left_is_removed(computer: Computer) -> None:
    left = computer.cache / f"{library_cache.BUILDING}left"
    left.mkdir(parents=True)
    computer.cache.chmod(0o700)
    (left / "adamw.o").write_bytes(b"half")
    assert computer.command() == (True, "")
    assert not left.exists()


def test_a_signal_ends_the_compiler_and_nobody_waits_for_it(computer: Computer) -> None:
    # the first call sends it, when whoever started it waits
    once = f"mkdir {computer.folder}/sent 2>/dev/null && sleep 0.3 && kill -ALRM {os.getpid()}"
    compiler = computer.install(f"{once}; sleep 600")

    def receive(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, receive)
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            computer.command()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 300
    assert computer.kept() == [], "nothing is left, and nothing is remembered"
    assert not [command for command in _commands() if str(compiler) in command]


def _commands() -> list[str]:
    """Return the command lines of all processes."""
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            result.append(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return result
