"""Messages about the native kernels on standard error."""

from __future__ import annotations

import io
import sys

import pytest

from dikkat_runtime import notices
from dikkat_runtime.cli import failures as native_notices
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
    first, last = (f"compiling the native kernels for this processor, once: {done} of 3 …\n" for done in (0, 3))
    assert capsys.readouterr() == ("", first + last)
    monkeypatch.setattr(native_notices, "PLAIN_EVERY", 0.0)
    for done in range(4):
        messages.compiling(done, 3)
    assert capsys.readouterr().err.count("\n") == 4


def test_on_a_terminal_the_line_moves_and_ends_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for name in ("stderr", "__stderr__"):
        monkeypatch.setattr(sys, name, terminal)
    messages = NativeNotices("dikkat")
    messages.compiling(0, 2)
    messages.compiling(1, 2)
    messages.note("cc failed")
    line = "\rcompiling the native kernels for this processor, once: {} of 2 …"
    assert terminal.getvalue() == f"{line.format(0)}{line.format(1)}\ndikkat: cc failed\n"


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
