"""Validations and saves of a run with a time limit take a tenth of it at most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.toy import Recorder, ScriptedValidator, toy_trainer

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.training.budget import MIN_SHARE, TimeBudget, plan_validations
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import StepReport, Stop, Validation, never


def test_where_all_fits_all_is_done() -> None:
    assert plan_validations(60.0, 1.0, 0.5, wanted=10) == (1.0, 10)


def test_first_there_are_fewer_and_then_they_are_smaller() -> None:
    assert plan_validations(60.0, 10.0, 2.0, wanted=10) == (1.0, 5)
    share, count = plan_validations(9.0, 10.0, 0.5, wanted=10)
    assert share == pytest.approx(0.25)
    assert count == 3
    assert plan_validations(1.0, 1000.0, 0.0, wanted=10) == (MIN_SHARE, 1), "the last one always comes"


@given(
    allowed=st.floats(0.1, 1e4), validation=st.floats(1e-3, 1e3), save=st.floats(0.0, 1e2), wanted=st.integers(1, 20)
)
def test_a_plan_fits_unless_it_is_the_least(allowed: float, validation: float, save: float, wanted: int) -> None:
    share, count = plan_validations(allowed, validation, save, wanted)
    assert 1 <= count <= wanted
    assert MIN_SHARE <= share <= 1.0
    assert count == 1 or count * (share * validation + save) <= allowed * (1 + 1e-6) + 1e-6


class SlowValidator(ScriptedValidator):
    """Takes `seconds` for all of its data, by a clock that it moves."""

    def __init__(self, seconds: float, wait: Callable[[float], None]) -> None:
        super().__init__()
        self.seconds, self.wait, self.share = seconds, wait, 1.0
        self.shares: list[float] = []

    def limit(self, share: float) -> float:
        self.share = share
        return share

    def __call__(
        self, model: EncoderDecoder, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS
    ) -> Validation:
        self.wait(self.share * self.seconds)
        self.shares.append(self.share)
        return super().__call__(model, number, should_stop, ranks)


@pytest.mark.parametrize(("seconds", "most"), [(0.01, 10), (4.0, 3), (30.0, 3), (300.0, 1)])
def test_case_02_a_run_with_slow_validations_learns_most_of_its_time(tmp_path: Path, seconds: float, most: int) -> None:
    """A minute and a half, two seconds an update; a validation of all that was held out takes `seconds`."""
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    validator = SlowValidator(seconds, wait)
    budget = TimeBudget(90.0, start=0.0, clock=lambda: now)
    trainer = toy_trainer(tmp_path, budget=budget, validator=validator, validations=10)

    def learn(report: StepReport) -> None:
        wait(2.0)

    trainer.train(watcher := Recorder(each_step=learn))
    assert 1 <= len(watcher.rows) <= most
    assert watcher.rows[-1]["step"] == len(watcher.steps), "the end is validated"
    # one validation of a tenth of the data there must be, however long it takes
    assert len(watcher.steps) * 2.0 >= 90.0 * (0.85 if seconds <= 30.0 else 0.5)
    assert now <= 94.0 + 0.1 * seconds
    assert len(set(validator.shares[1:])) == 1, "validations are of the same data, or nothing could be compared"


def test_a_resumed_run_validates_on_what_it_did(tmp_path: Path) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    def budget() -> TimeBudget:
        return TimeBudget(90.0, start=now, clock=lambda: now)

    first = toy_trainer(tmp_path, budget=budget(), validator=SlowValidator(30.0, wait), validations=10)
    first.train(Recorder(each_step=lambda _: wait(2.0)), should_stop=lambda: first.state.updates >= 15)
    again = SlowValidator(30.0, wait)
    second = toy_trainer(tmp_path, budget=budget(), validator=again, validations=10, resume=True)
    checkpoint = second.run.latest_checkpoint()
    assert checkpoint is not None
    second.resume(checkpoint)
    assert isinstance(second.budget, TimeBudget)
    second.budget.already = second.state.seconds
    second.train(Recorder(each_step=lambda _: wait(2.0)))
    assert set(again.shares) == {first.state.validation_share}
    assert first.state.validation_share < 1.0
