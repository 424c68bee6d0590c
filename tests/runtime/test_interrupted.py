"""Signals end `dikkat-runtime` with one line and the code of the signal, however early they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.python_path import PYTHON_PATH

ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHON_PATH, "LC_ALL": "C.UTF-8"}
ENVIRONMENT.pop("LANGUAGE", None)
SIGNALED = """
import os, signal, time
import dikkat_runtime.cli.main as entry

def run(words):
    os.kill(os.getpid(), {number})
    time.sleep(60)

entry.run = run
entry.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU])
def test_a_signal_is_one_line(number: signal.Signals) -> None:
    program = [sys.executable, "-c", SIGNALED.format(number=int(number))]
    ended = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (128 + number, "dikkat: interrupted\n")


def test_a_signal_behind_the_first_one_does_not_cut_the_last_words_off() -> None:
    """As where a closed terminal sends several, or a hasty user presses Ctrl-C twice."""
    burst = """
import dikkat_runtime.cli.failures as failures
explain = failures.explain_failure
failures.explain_failure = lambda *words: (os.kill(os.getpid(), {number}), explain(*words))[1]
entry.main()
"""
    program = SIGNALED.replace("entry.main()\n", burst).format(number=int(signal.SIGTERM))
    ended = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (143, "dikkat: interrupted\n")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup, which lets a command outlive its terminal."""
    program = SIGNALED.format(number=int(signal.SIGHUP)).replace("time.sleep(60)", "return 3")
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_message_that_nobody_reads_changes_no_exit_code() -> None:
    program = "from dikkat_runtime.localization import say; say('one'); say('two'); raise SystemExit(3)"
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, stderr=writer).returncode == 3
    os.close(writer)


def test_signals_are_taken_care_of_before_anything_slow_is_loaded() -> None:
    program = "import sys, dikkat_runtime.cli.main; sys.exit(bool({'numpy', 'argparse'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT).returncode == 0
