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
from tests.system.toy import child, toy_sentences

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
    assert (process.returncode, output, notes) == (code, "", "dikkat: interrupted\n")


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
    assert (process.returncode, notes) == (143, "dikkat: interrupted\n")


def test_signals_are_taken_care_of_before_anything_slow_is_loaded() -> None:
    slow = "{'torch', 'numpy', 'typer', 'pydantic', 'rich'}"
    program = f"import sys, dikkat.cli.main; sys.exit(bool({slow} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": PYTHON_PATH}).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_ends_the_copies_that_decode_too(
    tmp_path: Path, trained: Path, number: signal.Signals, code: int
) -> None:
    """Without native code there is a process for each thread, the first among them; Ctrl-C goes to all of the group."""
    source = "".join(f"{source}\n" for source, _ in toy_sentences(4000))
    (tmp_path / "text.en").write_text(source, encoding="utf-8")
    command: list[str | Path] = ["translate", trained, tmp_path / "text.en", "--batch-size", "8"]
    process = child(command, {"DIKKAT_NATIVE": "0", "OMP_NUM_THREADS": "2"}, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    limit = time.monotonic() + 120
    while not (copies := children.read_text().split()):
        assert time.monotonic() < limit
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, number)
    _, notes = process.communicate(timeout=120)
    assert (process.returncode, notes) == (code, "dikkat: interrupted\n")
    assert not any(Path(f"/proc/{copy}").exists() for copy in copies)
