"""Ctrl-C and processes that are just starting: Python would answer it with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

from dikkat.training.distributed.environment import LAUNCHED, LAUNCHER
from dikkat_runtime.cli import signals
from dikkat_runtime.cli.signals import Interrupted, StopSignal, sigint_blocked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no masks of signals")
BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def is_blocked_in_a_child() -> bool:
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True).stdout == "True\n"


def interrupt_and_wait() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    # another thread receives it, which does not wake this one
    for _ in range(6000):
        time.sleep(0.01)


@pytest.mark.usefixtures("own_signals")
def test_ctrl_c_is_withheld_from_children_and_answered_here() -> None:
    StopSignal()
    with sigint_blocked():
        assert is_blocked_in_a_child()
        with pytest.raises(Interrupted) as caught:
            interrupt_and_wait()
    assert caught.value.exit_code == 130
    assert not is_blocked_in_a_child()


@pytest.mark.usefixtures("own_signals")
def test_a_signal_behind_the_one_that_interrupted_does_not_cut_the_last_words_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed terminal sends several, and a hasty user too; later, one more interrupts again."""
    stop = StopSignal()
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.exit_code == 130
    monkeypatch.setattr(signals, "SAME_WITHIN", 0.0)
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("own_signals")
def test_a_signal_whose_interruption_was_lost_is_honoured_by_what_asks_later() -> None:
    """Python drops what a handler raises within a finalizer, and libraries what is raised in their callbacks."""
    assert not StopSignal()()
    StopSignal()
    with suppress(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    later = StopSignal()
    assert (later(), later.exit_code) == (True, 143)


def interrupt_itself() -> None:
    """Send the process that is about to become `dikkat` a Ctrl-C that waits, as torchrun passes on an early one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


def run_interrupted(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "TORCHELASTIC_ERROR_FILE": str(folder / "error.json")}
    command = [sys.executable, "-m", "dikkat", *words]
    ended = subprocess.run(
        command, env=environment | variables, preexec_fn=interrupt_itself, capture_output=True, text=True
    )
    return ended.returncode, ended.stdout.partition(" ")[0], ended.stderr


def test_a_rank_of_torchrun_answers_ctrl_c_once_it_can(tmp_path: Path) -> None:
    """In silence, since the launcher says it."""
    folder = tmp_path / "run" / "attempt_0" / "0"
    folder.mkdir(parents=True)
    assert run_interrupted(folder, "train", "lm", **{LAUNCHED: "1.0"}) == (130, "", "")


def test_a_rank_of_ray_leaves_ctrl_c_to_its_launcher(tmp_path: Path) -> None:
    assert run_interrupted(tmp_path, "--version", **{LAUNCHED: "1.0", LAUNCHER: "ray"}) == (0, "dikkat", "")


def test_ctrl_c_before_the_arguments_are_read_is_one_line() -> None:
    program = (
        "import os, signal, dikkat_runtime.cli.main as entry\n"
        "entry._require_utf8 = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "entry.main()"
    )
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "LC_ALL": "C.UTF-8"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "dikkat: interrupted\n")
