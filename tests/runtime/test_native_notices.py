"""Messages about the native kernels on standard error."""

from __future__ import annotations

import io
import sys

import pytest

from dikkat_runtime import notices
from dikkat_runtime.cli import main
from dikkat_runtime.cli.failures import NativeNotices


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_where_there_is_no_terminal_lines_come_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = NativeNotices("dikkat")
    for done in range(4):
        messages.compiling(done, 3)
    messages.stopped_compiling()
    assert capsys.readouterr() == ("", "1/3  compiling the native kernels for this processor, once\n")
    clock = iter((0.0, 6.0, 12.0, 18.0))
    monkeypatch.setattr("dikkat_runtime.cli.progress.time.monotonic", lambda: next(clock))
    messages = NativeNotices("dikkat")
    for done in range(4):
        messages.compiling(done, 4)
    line = "4/4  compiling the native kernels for this processor, once, 0:06 left"
    assert capsys.readouterr().err.splitlines()[1:] == ["2/4" + line[3:-11], "3/4" + line[3:-11], line]


def test_on_a_terminal_the_line_moves_and_ends_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for name in ("stderr", "__stderr__"):
        monkeypatch.setattr(sys, name, terminal)
    messages = NativeNotices("dikkat")
    messages.compiling(0, 2)
    messages.compiling(1, 2)
    messages.note("cc failed")
    line = "\r\x1b[2K{}/2  compiling the native kernels for this processor, once"
    assert terminal.getvalue() == f"{line.format(1)}{line.format(2)}\r\x1b[2Kdikkat: cc failed\n"


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_closed_standard_error_ends_nothing(stream: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed if stream else None)
    messages = NativeNotices("dikkat")
    messages.compiling(0, 2)
    messages.note("cc failed")


def test_the_command_line_listens_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_listeners", [])
    notices.note("nobody is there")
    assert main.run(["--help"]) == 0
    assert [type(listener) for listener in notices._listeners] == [NativeNotices]
