"""Ctrl-C and SIGTERM end a command that has nothing to save with one line and the code of the signal."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.system.toy import child, toy_sentences

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("command", ["translate", "evaluate"])
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
