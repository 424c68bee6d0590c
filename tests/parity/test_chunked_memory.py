"""Chunked attention at thousands of positions against the full matrix: the same numbers in an eighth of the memory.

Memory is what Linux counts: the highest resident size (VmHWM) that a process of its own ever had, less the resident
size (VmRSS) just before the call, when the library and the inputs are there already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.python_path import PYTHON_PATH

STATUS = Path("/proc/self/status")
WIDTH = 64

SETTING = f"""
import sys
import numpy, torch
from dikkat.nn import chunked_attention

def kilobytes(name):
    lines = open("{STATUS}", encoding="ascii").read().split("\\n")
    return int(next(line for line in lines if line.startswith(name)).split()[1])

torch.manual_seed(0)
query, key, value = (torch.randn(1, 1, int(sys.argv[2]), {WIDTH}) for _ in range(3))
torch.softmax(query[..., :64, :] @ key[..., :64, :].mT, dim=-1) @ value[..., :64, :]
before = kilobytes("VmRSS")
"""
CHUNKED = "output = chunked_attention(query, key, value)"
# the textbook's three lines, each in place: the least that a full matrix can cost
FULL = f"""
weights = (query / {WIDTH**0.5}) @ key.mT
weights.sub_(weights.amax(-1, keepdim=True)).exp_()
output = weights.div_(weights.sum(-1, keepdim=True)) @ value
"""
REPORT = """
print(1024 * (kilobytes("VmHWM") - before))
numpy.save(sys.argv[1], output.numpy())
"""


GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""A block of a chunk goes back when it is freed. Else glibc keeps some of them, 25 to 42 MiB in all, as it happens."""


def measured(code: str, result: Path, length: int) -> tuple[int, NDArray[np.float32]]:
    """Bytes that `code` needed, and its output."""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "OMP_NUM_THREADS": "1", **GIVEN_BACK}
    command = [sys.executable, "-c", SETTING + code + REPORT, str(result), str(length)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), np.load(result)


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason=f"{STATUS} is not there: resident memory is read from Linux")
@pytest.mark.parametrize("length", [pytest.param(16384, marks=pytest.mark.nightly), 8192])
def test_it_is_the_full_matrix_in_an_eighth_of_the_memory(length: int, tmp_path: Path) -> None:
    """One head of width 64; a matrix of weights has 1 GiB, by day a quarter of that.

    The full matrix must show its size, or else nothing was measured.
    """
    matrix = length * length * 4
    full_bytes, expected = measured(FULL, tmp_path / "full.npy", length)
    chunked_bytes, result = measured(CHUNKED, tmp_path / "chunked.npy", length)
    assert full_bytes >= matrix
    assert chunked_bytes <= matrix / 8
    assert expected.shape == result.shape == (1, 1, length, WIDTH)
    assert np.abs(expected).max() > 1e-2
    assert np.abs(result - expected).max() <= 1e-5
