"""The model of benchmarks/rank_failures.py beside a simulation of failures by numbers drawn at random."""

from __future__ import annotations

import random

import pytest
from benchmarks.rank_failures import expected_seconds


def seconds(draw: random.Random, start: float, interval: float, checkpoints: int, rate: float) -> float:
    """Train and fail: a failure loses the start, or the interval, that it falls into."""
    now, failure = 0.0, draw.expovariate(rate)
    is_started, done = False, 0
    while done < checkpoints:
        end = now + (interval if is_started else start)
        if failure < end:
            now, is_started = failure, False
            failure += draw.expovariate(rate)
        else:
            now, done = end, done + is_started
            is_started = True
    return now


@pytest.mark.parametrize("rate", [0.002, 0.02, 0.05])
def test_the_mean_time_is_that_of_many_trainings(rate: float) -> None:
    draw = random.Random(1)
    times = [seconds(draw, 20.0, 10.0, 8, rate) for _ in range(4000)]
    assert sum(times) / len(times) == pytest.approx(expected_seconds(20.0, 10.0, 8, rate), rel=0.03)


def test_nothing_is_late_without_failures() -> None:
    assert expected_seconds(20.0, 10.0, 8, 0.0) == 100.0
    assert expected_seconds(20.0, 10.0, 8, 1e-9) == pytest.approx(100.0)
