"""What a checkpoint of training holds, and that it goes back to where it came from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.training.toy import Recorder, task_of, toy_trainer

from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision
from dikkat.training.state import TrainingState, load_state
from dikkat_runtime.errors import DataError


def reload(trainer: Trainer, into: Trainer) -> TrainingState:
    checkpoint = trainer.run.latest_checkpoint()
    assert checkpoint is not None
    return load_state(checkpoint, into.parameters, into.optimizer)


@pytest.mark.parametrize(
    ("optimizer", "average", "dtype"),
    [("adamw", "ema", torch.bfloat16), ("muon", "ema", torch.float32), ("adamw", "none", torch.float32)],
)
def test_round_trip(tmp_path: Path, optimizer: str, average: str, dtype: torch.dtype) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "average": average}
    trainer = toy_trainer(tmp_path, updates=4, precision=Precision(dtype), **settings)
    trainer.train(Recorder())
    trainer.state.loss_sum = 1 / 3  # a float with no short decimal
    trainer.save()
    other = toy_trainer(tmp_path / "other", precision=Precision(dtype), **settings)
    assert not torch.equal(other.parameters.master, trainer.parameters.master)
    assert asdict(reload(trainer, other)) == asdict(trainer.state)
    assert torch.equal(other.parameters.master, trainer.parameters.master)
    assert torch.equal(other.parameters.working, trainer.parameters.working)
    assert torch.equal(task_of(other).model.output_weight, task_of(trainer).model.output_weight)
    theirs = trainer.optimizer.state()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in other.optimizer.state().items())
    assert (trainer.optimizer.average is None) == (average == "none")
    if trainer.optimizer.average is not None and other.optimizer.average is not None:
        assert torch.equal(other.optimizer.average, trainer.optimizer.average)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"optimizer": "muon"}, ""), ({"average": "ema"}, "average")],
    ids=["other optimizer", "no average saved"],
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    trainer = toy_trainer(tmp_path, average="none")
    trainer.save()
    other = toy_trainer(tmp_path / "other", **{"average": "none", **settings})
    with pytest.raises(DataError, match=rf"step-000000: belongs to a run with other settings \(.*{problem}.*\)"):
        reload(trainer, other)


def test_a_checkpoint_with_an_unknown_number_is_refused(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path)
    tensors = {"model": trainer.parameters.named(trainer.parameters.master), "optimizer": trainer.optimizer.state()}
    assert trainer.optimizer.average is not None
    tensors["optimizer"] = {**tensors["optimizer"], "average": trainer.optimizer.average}
    trainer.run.save_checkpoint(0, tensors, {"mood": 3})
    with pytest.raises(DataError, match=r"belongs to a run with other settings .*mood"):
        reload(trainer, trainer)
