"""What a person reads on standard error while something takes long, and when a file has been written."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dikkat.cli import progress
from dikkat.cli.progress import Announced
from dikkat_runtime.cli import streams
from dikkat_runtime.cli.progress import WorkProgress
from dikkat_runtime.cli.streams import print_written
from dikkat_runtime.errors import DataError
from dikkat_runtime.notices import counted


def test_what_takes_long_is_said_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(progress, "ANNOUNCED_AFTER", 0.05)
    threads = threading.active_count()
    # the alarm waits until the silence before it has been seen, however slow this machine is
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    with Announced("run: translating"):
        assert capsys.readouterr().err == ""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and signal.getitimer(signal.ITIMER_REAL)[0]:
            time.sleep(0.01)
        # workers are copies of this process, which a thread would forbid
        assert threading.active_count() == threads
    assert capsys.readouterr().err == "run: translating …\n"
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_is_short_or_fails_at_once_is_not_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="a mistake"), Announced("run: translating"):
        raise ValueError("a mistake")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert capsys.readouterr().err == ""
    # but on a terminal, where somebody waits
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Announced("run: translating"):
        assert capsys.readouterr().err == "run: translating …\n"


def shown_on(controller: int, end: int) -> str:
    """Return what was written to the `end` of a terminal, which may reach its `controller` in several parts."""
    os.write(end, b"\0")
    content = b""
    while not content.endswith(b"\0"):
        content += os.read(controller, 4096)
    return content[:-1].decode().replace("\r\n", "\n")


def test_a_terminal_keeps_only_the_line_of_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    what = "a path that takes more than one row of this terminal: reading it"

    def shown(error: Exception) -> str:
        with open(end, "w", closefd=False) as stream, monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stream)
            with pytest.raises(type(error)), Announced(what):
                raise error
        return shown_on(controller, end)

    # 66 columns are two rows of forty: the cursor goes up twice, and each row is erased
    assert shown(DataError("a mistake")) == f"{what} …\n" + 2 * "\x1b[1A\x1b[2K"
    assert shown(ValueError("a mistake")) == f"{what} …\n"
    monkeypatch.setenv("TERM", "dumb")
    assert shown(DataError("a mistake")) == f"{what} …\n"
    os.close(controller)
    os.close(end)


def test_what_was_written_below_a_message_stays_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar or a note below it would be erased in its place."""
    controller, end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    message = "run: loading its model"

    def shown(note: str) -> str:
        raw = streams._Messages(end, "w", closefd=False)
        text = streams._text(raw, line_buffering=True)

        def work() -> None:
            text.write(note)
            raise DataError("a mistake")

        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", streams.VisibleText(text))
            with pytest.raises(DataError), Announced(message):
                work()
        return shown_on(controller, end)

    assert shown("") == f"{message} …\n\x1b[1A\x1b[2K"
    assert shown("1/4  a bar\n") == f"{message} …\n1/4  a bar\n"
    os.close(controller)
    os.close(end)


def test_files_that_were_written_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_written(Path("a b.png"), None, Path("x\x1b.svg"))
    assert capsys.readouterr().err == "wrote a b.png\nwrote x\\x1b.svg\n"


def test_texts_that_take_long_are_counted_and_short_work_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 100.0
    monkeypatch.setattr("dikkat_runtime.cli.progress.time.monotonic", lambda: clock)
    texts = [f"text {number}" for number in range(8)]
    assert list(counted(texts)) == texts
    with WorkProgress():
        assert list(counted(texts)) == texts
    assert capsys.readouterr().err == ""
    seen = []
    with WorkProgress():
        for text in counted(texts):
            seen.append(text)
            clock += 2.0
            # what one of them is made of is not counted as well
            for _ in counted(range(2), "parts"):
                clock += 0.5
    assert seen == texts
    # told after 6 and 12 and 18 seconds; of three seconds each, so many texts are left
    assert capsys.readouterr().err.splitlines() == ["3/8  texts", "5/8  texts, 0:12 left", "7/8  texts, 0:06 left"]


def test_what_follows_a_count_that_was_left_early_is_counted_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat_runtime.cli.progress.WORK_EVERY", 0.0)
    with WorkProgress():
        assert next(counted(["left early"])) == "left early"
        assert list(counted(["all"], "of them")) == ["all"]
    assert capsys.readouterr().err.splitlines()[-1] == "1/1  of them"
