"""The entry of the command line: whatever ends a command is one line and an exit code, and UTF-8 is spoken."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

from dikkat_runtime.cli import failures, main
from dikkat_runtime.cli.failures import explain_failure
from dikkat_runtime.cli.main import run
from dikkat_runtime.cli.signals import Interrupted
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.localization import one_visible_line, visible


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (DataError("a.tsv:3: bad; mend it"), "a.tsv:3: bad; mend it", 65),
        (Interrupted(1), "interrupted", 129),
        (MemoryError(), "out of memory; give a smaller --batch-size or --beam", 71),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
            "out of memory; give a smaller --batch-size or --beam",
            71,
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory; give a smaller --batch-size or --beam", 71),
        (OSError(errno.EACCES, "Permission denied", "a"), "a: cannot be used: Permission denied", 66),
        (
            OSError(errno.ENOSPC, "No space left on device", "a"),
            "a: reading or writing failed: No space left on device; make room, or check the disk",
            74,
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "a"),
            "a: cannot be written: Read-only file system; choose another path",
            73,
        ),
        (
            OverflowError("Python int too large to convert to C ssize_t"),
            "a number is too large to compute with (Python int too large to convert to C ssize_t)",
            2,
        ),
        (
            KeyError("x"),
            "internal error (KeyError: 'x'); this is a bug of dikkat;"
            " for the traceback: dikkat --debug translate 'a b'",
            70,
        ),
    ],
)
def test_an_error_is_one_line(
    error: BaseException,
    message: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(arguments: list[str]) -> int:
        print("what was done")
        raise error

    monkeypatch.setattr(main, "_run", fails)
    assert main.run(["translate", "a b"]) == code
    assert capsys.readouterr() == ("what was done\n", f"dikkat: {message}\n")


def hides(cause: Exception, error: Exception) -> Exception:
    """The `error` that is raised instead of its `cause`, as where a file is taken for a damaged one."""
    try:
        try:
            raise cause
        except type(cause):
            raise error from None
    except type(error) as raised:
        return raised


@pytest.mark.parametrize(
    "error",
    [
        hides(OSError(errno.ENOMEM, "Cannot allocate memory"), DataError("train.ids.npy: damaged; prepare it again")),
        hides(MemoryError(), MissingInputError("model.safetensors: cannot be read: None")),
        ImportError("libgfortran.so.5: failed to map segment from shared object"),
        ImportError("_lapack.so: cannot allocate memory in static TLS block"),
    ],
)
def test_too_little_memory_is_not_told_as_another_fault(error: Exception) -> None:
    said = ("out of memory; give a smaller --batch-size or --beam", 71)
    assert failures.explain_failure(error, ["translate", "run"]) == said


@pytest.mark.parametrize("error", [hides(KeyError("x"), DataError("a: bad")), ImportError("no module named x")])
def test_another_fault_is_not_told_as_too_little_memory(error: Exception) -> None:
    assert failures.explain_failure(error, ["translate", "run"])[1] != 71


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000])
def test_json_that_cannot_be_read_is_bad_data(text: str) -> None:
    import json

    try:
        json.loads(text)
    except (RecursionError, ValueError) as error:
        message, code = failures.explain_failure(error, [])
    assert message.startswith("a file is nested too deeply or holds too long a number (")
    assert code == 65


def test_the_traceback_is_shown_on_demand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(arguments: list[str]) -> int:
        raise DataError("bad")

    monkeypatch.setattr(main, "_run", fails)
    assert main.run(["--debug", "translate"]) == 65
    message = capsys.readouterr().err
    assert message.startswith("Traceback")
    assert message.endswith("\ndikkat: bad\n")


def test_arguments_that_are_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["train", "lm", os.fsdecode(b"caf\xe9.txt"), "--out", "run"]) == 2
    message = r"dikkat: the argument b'caf\xe9.txt' is not valid UTF-8; write it, or name the file, in UTF-8"
    assert capsys.readouterr().err == f"{message}\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    written = capsys.readouterr().out
    assert written.startswith("dikkat ")
    assert f"(Python {sys.version.split()[0]}, torch " in written


def test_visible_text() -> None:
    assert visible("a\tb\nc\x1b[31m\x7f\x9bé\r\x00") == "a\tb\nc\\x1b[31m\\x7f\\x9bé\\r\\x00"
    assert one_visible_line("a\tb\nc") == "a\\tb\\nc"


def started(command: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, **variables}
    return subprocess.run(
        ["sh", "-c", command, "sh", sys.executable], capture_output=True, env=environment, check=False
    )


def test_a_locale_of_ascii_changes_nothing(tmp_path: Path) -> None:
    """Neither what is read from the command line, nor names of files, nor what is written."""
    (tmp_path / "çok.tsv").write_text("öğle\t1\t2\n", encoding="utf-8")
    command = f'"$1" -m dikkat explain öğle --vectors {tmp_path}/çok.tsv'
    odd = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ended = started(command, **odd)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "öğle" in ended.stdout.decode()


def test_closed_streams_of_a_real_process() -> None:
    ended = started('"$1" -m dikkat --version >&-')
    assert (ended.returncode, ended.stderr) == (74, b"dikkat: standard output: is closed\n")
    assert started('"$1" -m dikkat --nothing <&- >&- 2>&-').returncode == 2


def test_a_shell_completes_the_commands() -> None:
    ended = started('"$1" -m dikkat', _DIKKAT_COMPLETE="complete_bash", COMP_WORDS="dikkat tra", COMP_CWORD="1")
    assert (ended.returncode, ended.stdout.split()) == (0, [b"translate", b"translate-files", b"train"])


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["doctor", "run", "--seed", "9" * 25], "--seed"),
        (["translate", "run", f"--top-k={'9' * 20}"], "--top-k"),
    ],
)
def test_a_number_that_no_computer_word_holds_is_told_with_its_option(arguments: list[str], option: str) -> None:
    message, code = explain_failure(OverflowError("Python int too large to convert to C long"), arguments)
    assert (message.partition(" ")[0], code) == (option, 2)
    assert message.endswith(": is too large to compute with; give a smaller number")
    # but not where something else went wrong
    assert explain_failure(UsageError("another thing"), arguments) == ("another thing", 2)


def test_a_beam_that_is_too_wide_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["translate", "run"], ["evaluate", "run"], ["attend", "run", "a", "--out", "a.png"]):
        assert run([*command, "--beam", "99999"]) == 2
        line = capsys.readouterr().err
        assert "Invalid value for '--beam'" in line
        assert line.endswith(f" 1000. Try `dikkat {command[0]} --help`.\n")


def test_a_file_that_looks_like_an_option_is_to_be_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-x.tsv").write_text("a\tb\n")
    assert run(["train", "translator", "-x.tsv", "--out", "r"]) == 2
    assert capsys.readouterr().err == "dikkat: -x.tsv: a file whose name begins with a dash; call it ./-x.tsv\n"
