"""Checkpoints on the way, disks that are full for a while, and best weights that are what they are said to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.unit.training.toy import Recorder, ScriptedValidator, toy_trainer

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.run_directory import RunDirectory
from dikkat.training import saving
from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.loop import Trainer
from dikkat.training.task import Stop, Validation, ValidationStoppedError, never
from dikkat_runtime.errors import DiskError


def resumed(folder: Path, note: Callable[[str], None] = lambda text: None, **settings: object) -> Trainer:
    trainer = toy_trainer(folder, resume=True, **settings)  # type: ignore[arg-type]
    checkpoint = trainer.run.latest_checkpoint()
    assert checkpoint is not None
    trainer.resume(checkpoint, note)
    return trainer


def test_a_checkpoint_is_saved_every_few_minutes(tmp_path: Path) -> None:
    """A minute an update: after every fifth, and the end is the one of a run that saved at validations alone."""
    now = 0.0

    def tick(_: object) -> None:
        nonlocal now
        now += 60.0

    def is_there(step: int) -> bool:
        return (tmp_path / "often" / "run" / "checkpoints" / f"step-{step:06d}").exists()

    seen: list[int] = []
    often = toy_trainer(
        tmp_path / "often", updates=12, budget=UpdateBudget(12, lambda: now), validations=1, dropout=0.3
    )

    def step(report: object) -> None:
        tick(report)
        seen.append(sum(is_there(number) for number in range(1, 13)))

    often.train(Recorder(each_step=step))
    seldom = toy_trainer(tmp_path / "seldom", updates=12, validations=1, dropout=0.3)
    seldom.train(Recorder())
    assert seen == [0] * 5 + [1] * 5 + [2] * 2, "seen before the save of an update"
    assert torch.equal(often.parameters.master, seldom.parameters.master)
    assert often.run.weights.read_bytes() == seldom.run.weights.read_bytes()


def fail_at(monkeypatch: pytest.MonkeyPatch, times: list[int]) -> None:
    """Let the saves of these numbers meet a full disk."""
    calls = iter(range(1, 100))
    save = RunDirectory.save_checkpoint

    def full(self: RunDirectory, *found: object, **how: object) -> Path:
        if next(calls) in times:
            raise DiskError("run: writing failed: No space left on device")
        return save(self, *found, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(RunDirectory, "save_checkpoint", full)


def test_a_save_that_failed_is_tried_again_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy_trainer(tmp_path / "whole", updates=12, validations=4)
    whole.train(Recorder())
    fail_at(monkeypatch, [2, 3])
    trainer = toy_trainer(tmp_path / "full", updates=12, validations=4)
    assert trainer.train(watcher := Recorder())
    assert watcher.notes == [
        "run: writing failed: No space left on device; training goes on, and the next save tries again"
    ]
    assert [row["step"] for row in trainer.run.read_metrics()] == [3, 6, 9, 12], "no row twice, none lost"
    assert trainer.run.weights.read_bytes() == whole.run.weights.read_bytes()


def test_the_last_save_must_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_at(monkeypatch, [4, 5])
    trainer = toy_trainer(tmp_path, updates=12, validations=4)
    with pytest.raises(DiskError, match="No space left") as caught:
        trainer.train(Recorder())
    assert caught.value.exit_code == 74
    again = resumed(tmp_path, updates=12, validations=4)
    assert again.train(Recorder()), "and once there is room the run comes to its end"
    assert [row["step"] for row in again.run.read_metrics()] == [3, 6, 9, 12]


def test_weights_that_do_not_read_back_are_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_bit(self: RunDirectory, *found: object) -> None:
        write(self, *found)  # type: ignore[arg-type]
        content = bytearray(self.weights.read_bytes())
        content[-5] ^= 1
        self.weights.write_bytes(content)

    write = RunDirectory.save_weights
    monkeypatch.setattr(RunDirectory, "save_weights", lose_a_bit)
    trainer = toy_trainer(tmp_path, updates=4, validations=1)
    with pytest.raises(DiskError, match=r"model\.safetensors: writing failed: it does not read back"):
        trainer.train(Recorder())


def remove(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("chrf", "best", "harm", "average"),
    # by day every pair of two values once
    [
        pytest.param(*scores, harm, average, marks=() if (one + two + three) % 2 == 0 else pytest.mark.nightly)
        for one, scores in enumerate((([1.0, 2.0, 3.0, 4.0], 12), ([1.0, 2.0, 3.0, 0.0], 9)))
        for two, harm in enumerate((remove, damage))
        for three, average in enumerate(("ema", "none"))
    ],
)
def test_lost_best_weights_are_rebuilt(
    tmp_path: Path, harm: Callable[[Path], None], chrf: list[float], best: int, average: str
) -> None:
    """From the checkpoint that is taken up, or from the one before."""
    trainer = toy_trainer(tmp_path, validator=ScriptedValidator(chrf=chrf), average=average)
    trainer.train(Recorder())
    content = trainer.run.weights.read_bytes()
    harm(trainer.run.weights)
    notes: list[str] = []
    again = resumed(tmp_path, notes.append, validator=ScriptedValidator(chrf=chrf), average=average)
    assert trainer.run.weights.read_bytes() == content
    (note,) = notes
    assert note.endswith(f"rebuilt from the checkpoint of update {best}")
    assert again.state == trainer.state


def test_a_best_score_whose_weights_are_gone_is_forgotten(tmp_path: Path) -> None:
    """The run ends with weights and a card that are of one another."""
    script = [9.0, 2.0, 3.0, 4.0]
    trainer = toy_trainer(tmp_path, validator=ScriptedValidator(chrf=script))
    trainer.train(Recorder())
    trainer.run.weights.unlink()
    notes: list[str] = []
    again = resumed(tmp_path, notes.append, validator=ScriptedValidator(chrf=script))
    assert notes == [
        f"{trainer.run.weights}: is missing, and no checkpoint holds them; the scores so far are forgotten"
    ]
    assert again.state.best_score is None
    assert again.train(watcher := Recorder())
    assert not watcher.steps
    assert [row["step"] for row in again.run.read_metrics()] == [12]
    assert again.state.best_sha256 == saving.checksum(again.run.weights) != ""


def test_weights_of_a_validation_whose_checkpoint_never_came_stay(tmp_path: Path) -> None:
    """Killed between the two, the run comes there again."""
    trainer = toy_trainer(tmp_path, validator=ScriptedValidator(chrf=[2.0, 1.0, 3.0]))
    trainer.train(Recorder(), should_stop=lambda: trainer.state.updates == 7)
    later = trainer.parameters.named(trainer.parameters.master)
    trainer.run.save_weights(later, {"step": "9"})
    notes: list[str] = []
    again = resumed(tmp_path, notes.append, validator=ScriptedValidator(chrf=[2.0, 1.0, 3.0]))
    assert notes == []
    assert (again.state.best_score, again.state.stale) == (2.0, 1)


class Stopping(ScriptedValidator):
    """Is asked to stop in the midst of its validation of that number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def __call__(
        self, model: EncoderDecoder, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS
    ) -> Validation:
        if number == self.number:
            raise ValidationStoppedError
        return super().__call__(model, number, should_stop, ranks)


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.nightly), 3])
def test_a_run_stopped_in_a_validation_makes_it_before_its_next_update(tmp_path: Path, number: int) -> None:
    whole = toy_trainer(tmp_path / "whole", dropout=0.2)
    whole.train(Recorder())
    first = toy_trainer(tmp_path / "broken", validator=Stopping(number), dropout=0.2)
    assert not first.train(Recorder())
    assert first.model.training
    second = resumed(tmp_path / "broken", dropout=0.2)
    assert second.train(Recorder())
    rows = [[{**row, "seconds": 0} for row in trainer.run.read_metrics()] for trainer in (whole, second)]
    assert rows[0] == rows[1]
    assert whole.run.weights.read_bytes() == second.run.weights.read_bytes()
    states = [
        json.loads((trainer.run.checkpoints / "step-000012" / "state.json").read_text()) for trainer in (whole, second)
    ]
    assert {**states[0], "seconds": 0} == {**states[1], "seconds": 0}
