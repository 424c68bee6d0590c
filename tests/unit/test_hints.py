"""A command that is printed for copying does what it says, whatever the paths in it are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dikkat.hints import command, piped

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
