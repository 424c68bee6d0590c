"""A command that is printed for copying does what it says, whatever the paths in it are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import dikkat
from dikkat_runtime.hints import NAME, command, piped

NASTY = [
    "my run",
    "it's",
    "$(touch x)",
    "a;b",
    "-rf",
    "",
    "*",
    "çalışma",
    "a\x1b[31m\nb",
    "caf\udce9",
    "tab\tand\\slash",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("name", NASTY)
def test_a_shell_reads_the_words_as_they_are(name: str) -> None:
    line = command("translate", name, Path("x", name))
    assert line.isprintable()
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    assert read == b"".join(os.fsencode(word) + b"\0" for word in ("dikkat", "translate", name, Path("x", name)))


def test_a_path_that_begins_with_a_dash_is_no_option() -> None:
    assert command("report", Path("-run"), "--out", "a.html") == "dikkat report ./-run --out a.html"


def test_text_for_standard_input() -> None:
    assert piped("translate", "my run", text="it's me") == """echo 'it'"'"'s me' | dikkat translate 'my run'"""
    assert piped("embed", "run") == "echo … | dikkat embed run"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an environment, not on the PATH, with the program and a Python in it; the current folder is its."""
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "dikkat").write_text("#!/bin/sh\n")
    (bin_ / "dikkat").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(bin_ / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return bin_


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.orig_argv", list(arguments))
    is_module = arguments[1:3] == ("-m", "dikkat")
    script = str(Path(dikkat.__file__).with_name("__main__.py")) if is_module else arguments[1]
    monkeypatch.setattr("sys.argv", [script, *arguments[3 if is_module else 2 :]])


def test_the_program_is_named_as_it_was_called(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(monkeypatch, "/x/python", ".venv/bin/dikkat", "quickstart")
    assert command("translate", "run") == ".venv/bin/dikkat translate run"
    assert piped("translate", "run", text="a") == "echo a | .venv/bin/dikkat translate run"
    call(monkeypatch, ".venv/bin/python", "-m", "dikkat", "quickstart")
    assert command("translate", "run") == ".venv/bin/python -m dikkat translate run"
    (environment.parent.parent / "my env").mkdir()
    (environment / "dikkat").rename("my env/dikkat")
    call(monkeypatch, "/x/python", "my env/dikkat", "quickstart")
    assert command("report", "run") == "'my env/dikkat' report run"


def test_the_plain_name_is_enough_where_a_shell_finds_this_program_by_it(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/usr/bin:{environment}")
    call(monkeypatch, "/x/python", ".venv/bin/dikkat", "quickstart")
    assert command("translate", "run") == "dikkat translate run"
    call(monkeypatch, ".venv/bin/python", "-m", "dikkat", "quickstart")
    assert command("translate", "run") == "dikkat translate run"
    # another one of the name is another program
    (tmp_path / "dikkat").write_bytes((environment / "dikkat").read_bytes())
    (tmp_path / "dikkat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{environment}")
    assert command("translate", "run") == ".venv/bin/python -m dikkat translate run"
    call(monkeypatch, "/x/python", ".venv/bin/dikkat", "quickstart")
    assert command("translate", "run") == ".venv/bin/dikkat translate run"


def test_a_command_for_a_file_has_the_plain_name(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(monkeypatch, "/x/python", ".venv/bin/dikkat", "quickstart")
    assert command("translate", "run", program=NAME) == "dikkat translate run"
