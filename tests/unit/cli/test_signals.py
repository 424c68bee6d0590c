"""Ctrl-C and processes that are just starting: Python would answer it with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.python_path import PYTHON_PATH

from dikkat.cli.signals import NUMBERS, Interrupted, StopSignal, ctrl_c_withheld
from dikkat.training.distributed.environment import LAUNCHED, LAUNCHER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no masks of signals")
BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


@pytest.fixture
def own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def is_blocked_in_a_child() -> bool:
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True).stdout == "True\n"


def interrupt_and_wait() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    # another thread receives it
    time.sleep(60)


@pytest.mark.usefixtures("own_signals")
def test_ctrl_c_is_withheld_from_children_and_answered_here() -> None:
    StopSignal()
    with ctrl_c_withheld():
        assert is_blocked_in_a_child()
        with pytest.raises(Interrupted) as caught:
            interrupt_and_wait()
    assert caught.value.exit_code == 130
    assert not is_blocked_in_a_child()


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


@pytest.mark.parametrize(("launcher", "code", "said"), [("torchrun", 130, ""), ("ray", 0, "dikkat ")])
def test_a_rank_of_torchrun_answers_ctrl_c_once_it_can_and_one_of_ray_leaves_it_to_its_launcher(
    launcher: str, code: int, said: str
) -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, LAUNCHED: "1.0", LAUNCHER: launcher}
    ended = subprocess.run(
        [sys.executable, "-m", "dikkat", "--version"],
        env=environment,
        preexec_fn=interrupt_itself,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout[: len("dikkat ")], ended.stderr) == (code, said, "")
