"""What the commands of `dikkat train` tell of a run that was stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dikkat.cli.training import run_job
from dikkat.config import Device
from dikkat.pipelines.preparation import TrainRequest
from dikkat.pipelines.training import Outcome
from dikkat.pipelines.translator_job import TranslatorJob


@pytest.fixture
def own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(("device", "named"), [("cpu", ""), ("cuda", " --device cuda")])
def test_a_stopped_run_goes_on_where_it_was(device: Device, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, object] = {}

    def runner(*_: object, **how: object) -> Outcome:
        given.update(how)
        return Outcome(finished=False, best_score=None)

    job = TranslatorJob(TrainRequest(["pairs.tsv"]))
    assert run_job("translator", job, Path("run"), False, 0.0, "", "", device, runner) == 128 + signal.SIGINT
    assert given["device"] == device
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"stopped and saved; go on with: dikkat train translator --out run --resume{named}"
