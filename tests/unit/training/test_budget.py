"""Progress in updates and in seconds, and the learning rate that follows it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat.training.budget import TimeBudget, UpdateBudget
from dikkat.training.optimizer import learning_rate


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_update_budget_is_the_share_of_updates() -> None:
    budget = UpdateBudget(8)
    assert [budget.progress(updates) for updates in (0, 2, 8, 11)] == [0.0, 0.25, 1.0, 1.0]
    budget.validated(1e6)
    assert budget.progress(2) == 0.25, "time plays no part"


def test_update_budget_tells_the_time_left_from_the_speed_so_far() -> None:
    clock = Clock()
    budget = UpdateBudget(100, clock)
    assert budget.seconds_left(40) is None
    clock.now += 20.0
    assert budget.seconds_left(50) == pytest.approx(100.0)  # 2 s an update, 50 to go
    clock.now += 10.0
    assert budget.seconds_left(100) == 0.0


def test_time_budget_is_the_share_of_time() -> None:
    clock = Clock()
    budget = TimeBudget(60.0, start=1000.0, clock=clock)
    assert (budget.progress(0), budget.seconds_left(0)) == (0.0, 60.0)
    clock.now = 1015.0
    assert (budget.progress(999), budget.seconds_left(999)) == (0.25, 45.0)
    clock.now = 1090.0
    assert (budget.progress(0), budget.seconds_left(0)) == (1.0, 0.0)


def test_time_budget_counts_earlier_sessions() -> None:
    clock = Clock(5.0)
    budget = TimeBudget(100.0, start=0.0, already=45.0, clock=clock)
    assert budget.used() == 50.0
    assert budget.progress(0) == 0.5


def test_time_budget_keeps_room_for_the_slowest_validation() -> None:
    clock = Clock(0.0)
    budget = TimeBudget(100.0, start=0.0, clock=clock)
    budget.validated(10.0)
    budget.validated(3.0)
    clock.now = 44.5
    assert budget.progress(0) == pytest.approx(0.5)  # of 100 s less 1.1 x 10 s
    clock.now = 89.0
    assert budget.progress(0) == pytest.approx(1.0)
    budget.validated(1e6)
    clock.now = 35.0
    assert budget.progress(0) == pytest.approx(0.5), "a slow validation may cost at most 30 % of the training"


def test_time_budget_survives_a_clock_before_its_start_and_no_time_at_all() -> None:
    assert TimeBudget(10.0, start=5.0, clock=Clock(0.0)).progress(0) == 0.0
    assert TimeBudget(0.0, start=0.0, clock=Clock(1.0)).progress(0) == 1.0


def test_learning_rate_rises_linearly_and_falls_linearly_to_the_end() -> None:
    rates = [learning_rate(updates / 1000, updates, 50, final=0.1) for updates in range(1001)]
    assert rates[0] == pytest.approx(1 / 50)
    assert rates[24] == pytest.approx(0.5 * (0.1 + 0.9 * 0.976))
    assert rates.index(max(rates)) == 49
    assert max(rates) == pytest.approx(1.0, abs=0.05)
    assert rates[500] == pytest.approx(0.55)
    assert rates[1000] == pytest.approx(0.1)
    falls = [later - sooner for sooner, later in pairwise(rates[50:])]
    assert min(falls) == pytest.approx(max(falls)) == pytest.approx(-0.0009)


def test_learning_rate_of_a_short_run_has_risen_after_a_tenth() -> None:
    assert learning_rate(0.1, 10, 4000, final=0.0) == pytest.approx(0.9)
    assert learning_rate(0.05, 5, 4000, final=0.0) == pytest.approx(0.5 * 0.95)


def test_without_warm_up_it_begins_at_the_peak() -> None:
    assert learning_rate(0.0, 0, 0, final=0.0) == 1.0


@given(
    progress=st.floats(0, 1),
    updates=st.integers(0, 10**6),
    warmup=st.integers(0, 10**5),
    final=st.floats(0, 1),
)
def test_learning_rate_is_never_negative_and_never_above_the_peak(
    progress: float, updates: int, warmup: int, final: float
) -> None:
    assert 0.0 <= learning_rate(progress, updates, warmup, final) <= 1.0
