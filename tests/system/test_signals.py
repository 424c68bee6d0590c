"""Ctrl-C and SIGTERM end a command that has nothing to save with one line and the code of the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH
from tests.system.toy import ENGINE, child, toy_sentences

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
ALL_SIGNALS = [*SIGNALS, (signal.SIGHUP, 129), (signal.SIGXCPU, 152)]


@pytest.mark.parametrize(
    ("command", "number", "code"), [("evaluate", signal.SIGTERM, 143), *(("translate", *each) for each in ALL_SIGNALS)]
)
def test_a_signal_is_one_line(tmp_path: Path, trained: Path, command: str, number: signal.Signals, code: int) -> None:
    """The text comes through a pipe that is never fed, so that the signal meets a waiting process."""
    os.mkfifo(pipe := tmp_path / "text.en")
    (tmp_path / "text.eo").write_text("".join(f"{target}\n" for _, target in toy_sentences(3)), encoding="utf-8")
    texts = [pipe, tmp_path / "text.eo"] if command == "evaluate" else [pipe]
    process = child([command, trained, *texts])
    with pipe.open("w"):
        time.sleep(0.1)
        process.send_signal(number)
        output, notes = process.communicate(timeout=120)
    # evaluate says what it translates as soon as it has opened the text
    told = [line for line in ENGINE.sub("", notes).splitlines() if ": translating " not in line]
    assert (process.returncode, output, told) == (code, "", ["dikkat: interrupted"])


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path, trained: Path) -> None:
    """As under nohup, which lets a command outlive its terminal."""
    os.mkfifo(pipe := tmp_path / "text.en")
    process = child(["translate", trained, pipe], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    with pipe.open("w"):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, notes = process.communicate(timeout=120)
    assert (process.returncode, ENGINE.sub("", notes)) == (143, "dikkat: interrupted\n")


def test_signals_are_taken_care_of_before_anything_slow_is_loaded() -> None:
    slow = "{'torch', 'numpy', 'typer', 'pydantic', 'rich', 'pathlib', 'ipaddress'}"
    program = f"import sys, dikkat_runtime.cli.main; sys.exit(bool({slow} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": PYTHON_PATH}).returncode == 0
