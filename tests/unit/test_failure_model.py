"""The model of benchmarks/rank_failures.py beside a simulation of failures by numbers drawn at random."""

from __future__ import annotations

import random

import pytest
from benchmarks.rank_failures import COLUMNS, Kind, Run, expected_seconds, heading, row


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


def test_a_row_of_the_table_is_late_by_what_was_lost() -> None:
    """Four intervals of 10 s after a start of 20 s end at 60 s; two failures in the middle of one cost 25 s each."""
    failures: list[tuple[float, Kind]] = [(25.0, "rank"), (60.0, "machine")]
    run = Run(
        start=20.0,
        trained=110.0,
        weights="a",
        failures=failures,
        restarts=[20.0, 22.0],
        intervals=[9.0, 10.0, 10.0, 11.0],
    )
    cells = [cell.strip() for cell in row(run, 4, 0.0, "a").strip("|").split("|")]
    assert cells == ["20.0", "10.0", "1", "1", "21.0", "50", "50", "0", "1.00", "45%", "the same"]
    assert row(run, 4, 0.0, "b").endswith("| others |")
    machine = {"cores": 2, "processor": "EPYC"}
    where, _, *lines = heading({"machine": machine, "date": "2026-11-27T12:00:00", "commit": "abc"})
    assert where == "two ranks of a tiny model, 2 cores, EPYC, 2026-11-27, commit abc"
    assert [line.count("|") for line in lines] == [len(COLUMNS) + 1] * 2
    assert len(cells) == len(COLUMNS)
