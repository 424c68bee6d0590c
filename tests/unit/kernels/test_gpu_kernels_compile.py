"""Triton kernels compiled for an H100 or H200 where there is none: pip install triton brings CUDA's assembler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SHARED = 227 * 1024
"""Bytes of shared memory that one program may have."""
KERNELS = {
    "_smoothed_softmax": 6,
    "_add_dropped": 8,
    "_forward": 24,
    "_backward": 24,
    "_partial_sums": 12,
    "_finish_sums": 3,
}
"""Least number of different programs of each kernel that the launches lead to."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("triton") is None, reason="no Triton, which compiles kernels: pip install triton"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    command = [sys.executable, "-m", "tests.unit.kernels.gpu_compilation"]
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_every_launch_compiles(compiled: list[dict[str, Any]]) -> None:
    assert [f"{line['launch']}: {line['error']}" for line in compiled if "error" in line] == []
    counts = Counter(line["kernel"] for line in compiled)
    assert set(counts) == set(KERNELS)
    for name, least in KERNELS.items():
        assert counts[name] >= least, name


def test_every_kernel_fits_into_a_multiprocessor(compiled: list[dict[str, Any]]) -> None:
    assert max(line["shared"] for line in compiled if "kernel" in line) <= SHARED


def test_no_kernel_spills_its_registers(compiled: list[dict[str, Any]]) -> None:
    assert {line["launch"]: line["spilled"] for line in compiled if line.get("spilled")} == {}
