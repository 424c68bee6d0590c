"""The measuring itself: known exponents, known allocations, and the operating system's own count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.python_path import PYTHON_PATH

from dikkat.lessons.comparison.measurement import ROUNDS, fit_exponent, measure, peak_bytes

MIB = 1 << 20


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponents_of_powers(power: float) -> None:
    sizes = [10, 20, 40, 80]
    result = fit_exponent(sizes, [3.0 * size**power for size in sizes])
    assert result is not None
    assert result.value == pytest.approx(power)
    assert (result.first, result.last) == (20, 80)


def test_exponents_look_at_the_largest_sizes() -> None:
    """A constant that hides the growth at small sizes stays out of the fit."""
    result = fit_exponent([1, 2, 1000, 2000, 4000], [50.0, 50.0, 1e6, 4e6, 16e6])
    assert result is not None
    assert result.value == pytest.approx(2.0)


def test_one_point_has_no_exponent() -> None:
    assert fit_exponent([5], [1.0]) is None
    assert fit_exponent([5, 10], [0.0, 1.0]) is None


def test_peak_of_known_allocations() -> None:
    def one_after_another() -> None:
        for _ in range(3):
            torch.empty(MIB, dtype=torch.uint8)

    def all_at_once() -> list[torch.Tensor]:
        return [torch.empty(MIB, dtype=torch.uint8) for _ in range(3)]

    x = torch.ones(MIB // 4)
    assert peak_bytes(one_after_another) == MIB
    assert peak_bytes(all_at_once) == 3 * MIB
    assert peak_bytes(lambda: x) == 0
    # x + x, then its sine beside it, then the product of both beside the two
    assert peak_bytes(lambda: (y := x + x) * y.sin()) == 3 * MIB


def test_every_call_in_every_round_and_the_fastest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that only the calls move: one of them is disturbed in the first round."""
    now = 0.0
    waits = iter([5.0, 7.0, 2.0, 3.0, 4.0, 3.0])
    heard: list[str] = []

    def take(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("dikkat.lessons.comparison.measurement.time.perf_counter", lambda: now)
    calls = [("slow", lambda: take(next(waits, 0.0))), ("quick", lambda: take(0.01))]
    slow, quick = measure(calls, heard.append)
    assert heard == ["measuring slow", "measuring quick"] * ROUNDS
    assert (slow.seconds, slow.repetitions) == (2.0, 2 * ROUNDS)
    assert quick.seconds == pytest.approx(0.01)
    # 0.05 s of repetitions a round, up to the rounding of the sum
    assert 5 * ROUNDS <= quick.repetitions <= 6 * ROUNDS


# not ru_maxrss: a new process starts with the one of the process that started it
RESIDENT = """
import re, torch
from dikkat.lessons.comparison.measurement import peak_bytes
from dikkat.nn.functional import attention
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
query, key, value = (torch.randn(1, 1, 4096, 64) for _ in range(3))
attention(query[..., :64, :], key[..., :64, :], value[..., :64, :])
before = peak()
attention(query, key, value)
resident = peak() - before
print(resident, peak_bytes(lambda: attention(query, key, value)))
"""


@pytest.mark.seed("E22")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="NOT TESTED: resident memory, without /proc")
def test_counted_memory_is_what_the_process_takes() -> None:
    """Attention with its whole matrix, n = 4,096, in a process of its own: three matrices of 64 MiB.

    The profiler, which asks once at its first use how much it shall say, says nothing.
    """
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, "-c", RESIDENT], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    resident, counted = map(int, done.stdout.split())
    assert counted == pytest.approx(3 * 64 * MIB, rel=0.05)
    assert resident == pytest.approx(counted, rel=0.15)
