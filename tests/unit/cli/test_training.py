"""What the commands of `dikkat train` tell of a run that was stopped."""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from dikkat.cli.processes import run_rank
from dikkat.cli.training import Ending, TrainOptions, run_job
from dikkat.tasks.common.train import Outcome
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.training.distributed.environment import RankInfo
from dikkat_runtime.cli.signals import Interrupted, StopSignal
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import msg
from dikkat_runtime.process_signals import NUMBERS


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(("device", "named"), [("cpu", ""), ("cuda", " --device cuda")])
def test_a_stopped_run_goes_on_where_it_was(device: Device, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    inputs: dict[str, object] = {}

    def runner(*_: object, **how: object) -> Outcome:
        inputs.update(how)
        return Outcome(finished=False, best_score=None)

    job = TranslatorJob(TrainRequest(["pairs.tsv"]))
    assert (
        run_job("translator", job, TrainOptions(Path("run"), device=device), 0.0, Ending(msg(""), msg("")), runner)
        == 128 + signal.SIGINT
    )
    assert inputs["device"] == device
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"stopped and saved; continue with: dikkat train translator --out run --resume{named}"


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_answered_at_once_and_honoured_after_the_update(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    def runner(*_: object, should_stop: Callable[[], bool], **how: object) -> Outcome:
        assert not should_stop()
        os.kill(os.getpid(), number)
        assert (
            capfd.readouterr().err == "stopping after this update; signal once more to stop at once, without saving\n"
        )
        assert should_stop()
        return Outcome(finished=False, best_score=None)

    job = TranslatorJob(TrainRequest(["pairs.tsv"]))
    assert run_job("translator", job, TrainOptions(Path("run")), 0.0, Ending(msg(""), msg("")), runner) == 128 + number


@pytest.mark.usefixtures("own_signals")
def test_a_second_signal_stops_at_once() -> None:
    def runner(*_: object, should_stop: Callable[[], bool], **how: object) -> Outcome:
        should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
        raise AssertionError("it goes on")

    with pytest.raises(Interrupted) as interrupt:
        run_job(
            "lm", TranslatorJob(TrainRequest(["a"])), TrainOptions(Path("run")), 0.0, Ending(msg(""), msg("")), runner
        )
    assert interrupt.value.exit_code == 129


@pytest.mark.usefixtures("own_signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_comes_while_garbage_is_collected_is_not_lost() -> None:
    """Python drops an exception that is raised there, so that before the first question nothing is interrupted."""

    def runner(*_: object, should_stop: Callable[[], bool], **how: object) -> Outcome:
        class Garbage:
            pass

        garbage = Garbage()
        weakref.finalize(garbage, signal.raise_signal, signal.SIGTERM)
        del garbage
        assert should_stop()
        return Outcome(finished=False, best_score=None)

    job = TranslatorJob(TrainRequest(["pairs.tsv"]))
    assert (
        run_job("translator", job, TrainOptions(Path("run")), 0.0, Ending(msg(""), msg("")), runner)
        == 128 + signal.SIGTERM
    )


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("launched", [1.0, None])
def test_a_signal_that_a_launcher_passes_on_is_no_second_one(
    launched: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal sends Ctrl-C to the ranks as well as to torchrun, ours or the user's own."""
    monkeypatch.setattr("dikkat.training.distributed.process_group.joined", lambda info, uses_gpu: nullcontext())
    stop, ended = StopSignal(), list[bool]()

    def train(ranks: object, loading: float) -> int:
        assert not stop()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        ended.append(stop())
        monkeypatch.setattr("time.monotonic", lambda: 1e12)
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        return stop.exit_code

    code = run_rank(RankInfo(1, 2, launched=launched), stop, train, uses_gpu=False)
    assert (code, ended) == (130, [True])
