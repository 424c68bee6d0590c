"""The kernels, compiled with sanitizers, under random calls: no access out of bounds, no undefined operation.

Hostile indices are among the calls, and each must be refused before C reads with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

from dikkat_runtime.native.first_use import CompileError, build

REPOSITORY = Path(__file__).resolve().parents[2]
ALL = "-fsanitize=address,undefined"


def make_calls(folder: Path, optimize: str, sanitizers: str, count: int, seed: int) -> None:
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        pytest.skip("kernels NOT TRIED under sanitizers: needs a C compiler: apt-get install gcc")
    named = subprocess.run([*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    runtime = Path(named.stdout.strip())
    if not runtime.is_absolute():
        pytest.skip(f"kernels NOT TRIED under sanitizers: {shlex.join(compiler)} has no libasan: use gcc")
    kernels = folder / "kernels.so"
    try:
        build(compiler, kernels, optimize, "-g1", sanitizers, "-fno-sanitize-recover=all", seconds=900)
    except CompileError as error:
        pytest.skip(f"{error}: the kernels were not tried under sanitizers")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        # Python and torch keep what they have until the process ends
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "2",
        "PYTHONPATH": os.pathsep.join([PYTHON_PATH, str(REPOSITORY)]),
    }
    command = [sys.executable, "-m", "tests.attacks.native_calls", str(kernels), str(count), str(seed)]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-6000:]}"
    assert done.stdout.split("\n")[-2].startswith("done")


@pytest.mark.nightly
def test_no_call_of_thousands_does_anything_undefined(tmp_path: Path) -> None:
    make_calls(tmp_path, "-O1", ALL, 3000, seed=41)
