"""A terminal never gets the control characters of a text that somebody else may have written; a pipe gets them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.runs import classifier_run, translator_run

pty = pytest.importorskip("pty", reason="needs a terminal of POSIX")

ESCAPES = "\x1b[2\x07 \x9b \u202e 1"
"""A line without words, which a translator copies."""
SHOWN = "\\x1b[2\\x07 \\x9b \\u202e 1"
PROGRAMS = ["dikkat", "dikkat_runtime"]


def on_terminal(words: list[str]) -> bytes:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        content = b""
        try:
            while some := os.read(ours, 4096):
                content += some
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0, content
    os.close(ours)
    return content


@pytest.mark.parametrize("program", PROGRAMS)
def test_control_characters_are_shown_on_a_terminal_and_kept_in_a_pipe(program: str, tmp_path: Path) -> None:
    run, lines = translator_run(tmp_path / "run"), tmp_path / "lines.txt"
    lines.write_text(f"{ESCAPES}\n", encoding="utf-8")
    words = [sys.executable, "-m", program, "translate", str(run), str(lines)]
    written = on_terminal(words)
    assert b"\x1b" not in written
    assert SHOWN.encode() in written
    piped = subprocess.run(words, capture_output=True, check=True)
    assert piped.stdout == f"{ESCAPES}\n".encode()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_label_of_a_stranger_steers_no_terminal(program: str, tmp_path: Path) -> None:
    run, lines = classifier_run(tmp_path / "run"), tmp_path / "lines.txt"
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    (run / "config.json").write_text(json.dumps({**config, "labels": ["no", "perhaps", "\x1b[2Jyes"]}))
    (run / "manifest.json").unlink()
    lines.write_text("Yes.\n", encoding="utf-8")
    written = on_terminal([sys.executable, "-m", program, "classify", str(run), str(lines), "--all"])
    assert b"\x1b" not in written
    assert b"\\x1b[2Jyes" in written
