"""A process that ends with its parent does so also where the parent has no time to end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.python_path import PYTHON_PATH

CHILD = """
import time
from dikkat_runtime.process_signals import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone can tell a process of the death of its parent")
def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environment, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    for _ in range(1200):
        if not is_running(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child has outlived its parent")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone can tell a process of the death of its parent")
def test_a_child_whose_parent_is_gone_before_it_asks_ends_at_once() -> None:
    """As a rank does whose launcher is killed while the rank loads its modules."""
    program = f"import sys; from dikkat_runtime.process_signals import end_with_parent; end_with_parent({os.getppid()})"
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == -signal.SIGKILL
    same = program.replace(str(os.getppid()), str(os.getpid()))
    assert subprocess.run([sys.executable, "-c", same], env=environment).returncode == 0


def is_running(process: int) -> bool:
    """Tell whether a process runs; one that has ended may be there, without arguments, until it is waited for."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return bool(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return False
