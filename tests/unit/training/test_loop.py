"""The loop: accumulation, averaging, stopping, resuming and diverging, each against a formula or an unbroken run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.training.toy import Recorder, ScriptedValidator, task_of, toy_model, toy_trainer
from torch import Tensor

from dikkat.data.batching import Batch, collate
from dikkat.kernels.dropout import keep_mask
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.run_directory import RunDirectory
from dikkat.training import saving, translation
from dikkat.training.budget import TimeBudget
from dikkat.training.distributed import shared_work
from dikkat.training.distributed.shared_work import seed_dropout
from dikkat.training.loop import Trainer
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.recovery import MAX_SKIPPED
from dikkat.training.task import BatchLoss, StepReport
from dikkat.training.translation import batch_loss
from dikkat_runtime.errors import DivergedError


def weights_of(trainer: Trainer) -> Tensor:
    return trainer.parameters.master.clone()


def resume(trainer: Trainer) -> Trainer:
    checkpoint = trainer.run.latest_checkpoint()
    assert checkpoint is not None
    trainer.resume(checkpoint)
    return trainer


def rows_without_time(run: RunDirectory) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in run.read_metrics()]


def test_accumulation_equals_one_big_batch(tmp_path: Path) -> None:
    """Three micro-batches of different numbers of tokens weigh by token, as in a batch of all their pairs."""
    trainer = toy_trainer(tmp_path, updates=1, accumulate=3, clip_norm=1e9, validations=1)
    parts = [task_of(trainer).plan.at(position)[1] for position in range(3)]
    trainer.train(watcher := Recorder())
    assert len({collate(task_of(trainer).corpus, part).num_tokens for part in parts}) > 1

    flat = FlatParameters(model := toy_model())
    smoothing = trainer.config.label_smoothing
    with flat.collect_gradients():
        objective, likelihood, tokens = batch_loss(
            model, collate(task_of(trainer).corpus, np.concatenate(parts)), smoothing
        )
        objective.backward()
    assert watcher.steps[0].count == tokens
    assert watcher.steps[0].loss == pytest.approx(float(likelihood) / tokens, rel=1e-6)
    assert float(flat.gradient.abs().max()) / tokens > 1e-3
    assert trainer.work.total is not None
    assert float((trainer.work.total - flat.gradient).abs().max()) / tokens <= 1e-6


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "relative", "relative_buckets"])
@pytest.mark.parametrize(("optimizer", "dtype"), [("adamw", torch.float32), ("muon", torch.bfloat16)])
def test_an_update_is_launched_without_asking_the_device(
    tmp_path: Path, positions: str, optimizer: str, dtype: torch.dtype
) -> None:
    """On the device "meta" tensors have no numbers: who asks for one, or mixes devices, gets an error."""
    trainer = toy_trainer(tmp_path, optimizer=optimizer, accumulate=2)
    task = task_of(trainer)
    task.model = toy_model(dropout=0.3, positions=positions).to("meta")
    elsewhere = Trainer(task, trainer.run, trainer.config, trainer.budget, Precision(dtype))
    for _ in range(2):
        result, count = elsewhere.launch(0.5)
        assert (result.device.type, tuple(result.shape)) == ("meta", (3,))
        assert count > 0
    assert elsewhere.state.updates == 2
    with pytest.raises(RuntimeError, match="meta"):
        result.tolist()


def test_the_average_follows_its_formula(tmp_path: Path) -> None:
    """avg <- d * avg + (1 - d) * weights with d = min(ema_decay, (1 + n) / (10 + n)), here in float64."""
    trainer = toy_trainer(tmp_path, updates=12, ema_decay=0.6)
    twin = weights_of(trainer).double()

    def follow(report: StepReport) -> None:
        decay = min(0.6, (1 + report.updates) / (10 + report.updates))
        twin.mul_(decay).add_(trainer.parameters.master.double() * (1 - decay))

    trainer.train(Recorder(each_step=follow))
    assert trainer.optimizer.average is not None
    assert not torch.equal(trainer.optimizer.average, trainer.parameters.master)
    assert float((trainer.optimizer.average.double() - twin).abs().max()) <= 1e-6


@pytest.mark.parametrize("average", ["ema", "none"])
@pytest.mark.parametrize(
    ("dtype", "in_validation"),
    [(torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32)],
    ids=str,
)
def test_validation_sees_the_average_and_training_goes_on_with_its_own(
    tmp_path: Path, average: str, dtype: torch.dtype, in_validation: torch.dtype
) -> None:
    validator, precision = ScriptedValidator(), Precision(dtype, validation=in_validation)
    trainer = toy_trainer(tmp_path, validator=validator, average=average, precision=precision)
    shown: list[Tensor] = []

    def remember(report: StepReport) -> None:
        assert torch.equal(trainer.parameters.working, trainer.parameters.master.to(dtype))
        weights = trainer.parameters.master if trainer.optimizer.average is None else trainer.optimizer.average
        names = [name for name, _ in trainer.model.named_parameters()]
        named = trainer.parameters.named(weights.to(in_validation).float())
        shown.append(torch.cat([named[name].flatten() for name in names]))

    trainer.train(Recorder(each_step=remember))
    assert trainer.model.training
    assert len(validator.seen) == 4
    for seen, update in zip(validator.seen, (3, 6, 9, 12), strict=True):
        assert torch.equal(seen, shown[update - 1])


def test_patience_stops_and_the_best_weights_are_kept(tmp_path: Path) -> None:
    validator = ScriptedValidator(chrf=[10.0, 30.0, 20.0, 25.0, 29.0, 50.0])
    trainer = toy_trainer(tmp_path, updates=60, validator=validator, validations=10, patience=3, average="none")
    best: dict[str, Tensor] = {}

    def remember(report: StepReport) -> None:
        if report.updates == 12:
            best.update(trainer.parameters.named(trainer.parameters.master))

    watcher = Recorder(each_step=remember)
    assert trainer.train(watcher)
    assert [row["chrf"] for row in watcher.rows] == [10.0, 30.0, 20.0, 25.0, 29.0]
    assert watcher.best == [True, True, False, False, False]
    assert trainer.state.best_score == 30.0
    saved = trainer.run.load_weights()
    assert saved.keys() == best.keys()
    assert all(torch.equal(saved[name], best[name]) for name in best)
    again = resume(toy_trainer(tmp_path, updates=60, validations=10, patience=3, average="none", resume=True))
    assert again.train(late := Recorder())
    assert not late.steps, "a run at the end of its patience stays there"


def test_validations_are_spread_over_the_run(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path, updates=10, validations=4)
    trainer.train(watcher := Recorder())
    assert [row["step"] for row in watcher.rows] == [3, 5, 8, 10]
    assert trainer.run.read_metrics() == watcher.rows
    losses = [step.loss for step in watcher.steps]
    tokens = [step.count for step in watcher.steps]
    wanted = np.average(losses[3:5], weights=tokens[3:5])
    assert watcher.rows[1]["train_loss"] == pytest.approx(wanted), "the mean since the last validation, by token"
    assert watcher.rows[-1]["tokens"] == sum(tokens)


def test_freed_memory_is_given_back_before_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two validations nothing is given back: each page would be faulted in anew."""
    trainer = toy_trainer(tmp_path, updates=40, validations=2)
    inputs: list[int] = []
    monkeypatch.setattr(saving, "give_back_freed_memory", lambda: inputs.append(trainer.state.updates))
    trainer.train(Recorder())
    assert inputs == [20, 40]


def test_a_time_limit_ends_the_run_after_a_validation(tmp_path: Path) -> None:
    """A clock that moves a second an update: 20 seconds hold 20 updates, and the end is validated."""
    now = 0.0
    budget = TimeBudget(20.0, start=0.0, clock=lambda: now)
    trainer = toy_trainer(tmp_path, budget=budget, validations=2)

    def tick(report: StepReport) -> None:
        nonlocal now
        now += 1.0

    trainer.train(watcher := Recorder(each_step=tick))
    assert 19 <= len(watcher.steps) <= 21
    assert watcher.rows[-1]["step"] == watcher.steps[-1].updates
    assert watcher.steps[5].seconds_left == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("stop_at", "precision", "kind"),
    [
        (1, Precision(torch.float32), "adamw"),
        (6, Precision(torch.bfloat16), "adamw"),
        (5, Precision(torch.bfloat16), "muon"),
        (11, Precision(torch.float32), "muon"),
        (4, Precision(torch.bfloat16, products="int8"), "muon"),
        (7, Precision(torch.float32, products="int8"), "adamw"),
    ],
    ids=str,
)
def test_stopped_and_resumed_is_bit_identical(tmp_path: Path, stop_at: int, precision: Precision, kind: str) -> None:
    settings: dict[str, Any] = {"dropout": 0.3, "precision": precision, "optimizer": kind, "accumulate": 2}
    settings["bidirectional_share"] = 0.5
    whole = toy_trainer(tmp_path / "whole", **settings)
    assert whole.train(Recorder())
    first = toy_trainer(tmp_path / "broken", **settings)
    assert not first.train(Recorder(), should_stop=lambda: first.state.updates == stop_at)
    second = resume(toy_trainer(tmp_path / "broken", resume=True, **settings))
    assert second.state.updates == stop_at
    assert second.train(Recorder())
    assert torch.equal(weights_of(whole), weights_of(second))
    assert whole.optimizer.average is not None
    assert second.optimizer.average is not None
    assert torch.equal(whole.optimizer.average, second.optimizer.average)
    assert whole.run.weights.read_bytes() == second.run.weights.read_bytes()
    assert rows_without_time(whole.run) == rows_without_time(second.run)


def test_rows_after_the_checkpoint_are_written_again(tmp_path: Path) -> None:
    """Killed between a row of metrics and its checkpoint, the resumed run must not have the row twice."""
    trainer = toy_trainer(tmp_path)
    trainer.train(Recorder(), should_stop=lambda: trainer.state.updates == 4)
    trainer.run.append_metrics({"step": 6, "chrf": 1.0})
    again = resume(toy_trainer(tmp_path, resume=True))
    again.train(Recorder())
    assert [row["step"] for row in again.run.read_metrics()] == [3, 6, 9, 12]


class Poison:
    """`batch_loss` whose gradient is not a number at the updates that `is_bad` names."""

    def __init__(self, is_bad: set[int]) -> None:
        self.is_bad = is_bad
        self.calls = 0

    def __call__(self, model: EncoderDecoder, batch: Batch, smoothing: float) -> BatchLoss:
        self.calls += 1
        objective, likelihood, tokens = batch_loss(model, batch, smoothing)
        return BatchLoss(objective * (torch.nan if self.calls in self.is_bad else 1.0), likelihood, tokens)


def test_gradients_that_stay_bad_go_back_once_and_are_a_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three good updates, then none any more: a checkpoint of the second is what the run goes back to."""
    monkeypatch.setattr(translation, "batch_loss", Poison(set(range(4, 100))))
    trainer = toy_trainer(tmp_path, updates=100, validations=50)
    after: list[Tensor] = []
    watcher = Recorder(each_step=lambda report: after.append(weights_of(trainer)))
    message = (
        rf"{MAX_SKIPPED} updates in a row, at half .* update 22; what was good up to update 2 is saved; set a lower"
    )
    with pytest.raises(DivergedError, match=message) as caught:
        trainer.train(watcher)
    assert caught.value.exit_code == 76
    assert watcher.notes == [
        "the gradient was not finite for 20 updates in a row at update 23; going back to update 2, at half the learning"
        " rate"
    ]
    assert not torch.equal(after[1], after[2])
    assert all(torch.equal(weights, after[2]) for weights in after[3:23])
    assert all(torch.equal(weights, after[1]) for weights in after[23:])
    assert torch.isfinite(trainer.parameters.master).all()
    checkpoint = trainer.run.latest_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 2, "what was saved before stays, and nothing of the bad updates is"


def test_a_run_that_goes_back_goes_on_at_half_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty bad gradients once: the run ends, and another start would resume at half the rate as well."""
    monkeypatch.setattr(translation, "batch_loss", Poison(set(range(5, 25))))
    rates: list[float] = []
    trainer = toy_trainer(tmp_path, updates=40, validations=20, warmup_steps=0)
    step = trainer.optimizer.step

    def noted(gradient: Tensor, update: int, rate: float, count: int) -> Tensor:
        rates.append(rate / (1 - (update - 1) / 40))
        return step(gradient, update, rate, count)

    monkeypatch.setattr(trainer.optimizer, "step", noted)
    assert trainer.train(watcher := Recorder())
    assert [round(rate, 6) for rate in rates] == [1.0] * 24 + [0.5] * 36
    assert len(watcher.notes) == 1
    assert trainer.state.rate_scale == 0.5
    assert [row["step"] for row in trainer.run.read_metrics()] == list(range(2, 41, 2))


def test_a_divergence_before_the_first_checkpoint_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "batch_loss", Poison(set(range(2, 22))))
    trainer = toy_trainer(tmp_path, updates=30, validations=1)
    first = weights_of(trainer)
    seen: list[Tensor] = []
    watcher = Recorder(each_step=lambda report: seen.append(weights_of(trainer)) if report.updates == 1 else None)
    assert trainer.train(watcher)
    assert "going back to update 0, at half" in watcher.notes[0]
    shifted = [(weights - first).norm() for weights in seen]
    assert 0.0 < shifted[1] < shifted[0], "begun again from the same weights, at half the rate"


def test_a_few_bad_gradients_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """19 bad, one good, 19 bad: the count starts again."""
    few = MAX_SKIPPED - 1
    monkeypatch.setattr(translation, "batch_loss", Poison({*range(2, 2 + few), *range(3 + few, 3 + 2 * few)}))
    trainer = toy_trainer(tmp_path, updates=3 + 2 * few, validations=1)
    skipped: list[int] = []
    assert trainer.train(Recorder(each_step=lambda report: skipped.append(trainer.state.skipped)))
    assert max(skipped) == few
    assert skipped[few + 1] == 0
    assert torch.isfinite(trainer.parameters.master).all()


def test_a_validation_loss_that_is_not_finite_is_a_divergence(tmp_path: Path) -> None:
    """Weights that overflowed would otherwise be kept as the best, and the card could not be written."""
    trainer = toy_trainer(tmp_path, validator=ScriptedValidator(losses=[2.0, float("nan")]))
    message = (
        "run: the validation loss was not finite, at half .* update 6; what was good up to update 3 .* set a lower"
    )
    with pytest.raises(DivergedError, match=message):
        trainer.train(watcher := Recorder())
    assert watcher.notes == [
        "the validation loss was not finite at update 6; going back to update 3, at half the learning rate"
    ]
    assert [row["valid_loss"] for row in trainer.run.read_metrics()] == [2.0]


def test_a_learning_rate_far_too_high_ends_in_one_line(tmp_path: Path) -> None:
    """No monkey: weights that leave float32 by themselves."""
    trainer = toy_trainer(tmp_path, updates=200, learning_rate=1e38, warmup_steps=0, validations=1)
    with pytest.raises(DivergedError, match="set a lower"):
        trainer.train(Recorder())


def masks(*position: int) -> Tensor:
    seed_dropout(*position)
    return keep_mask(torch.empty(400), 0.5)


def test_dropout_is_a_function_of_the_position() -> None:
    """Seed, update, micro-step and part: the same give the same masks, whatever was drawn before."""
    first = masks(1, 20, 3, 4)
    torch.rand(17)
    assert torch.equal(masks(1, 20, 3, 4), first)
    for other in ((2, 20, 3, 4), (1, 21, 3, 4), (1, 20, 4, 4), (1, 20, 3, 5), (12, 0, 3, 4), (1, 2, 3, 4)):
        share = float((masks(*other) == first).float().mean())
        assert 0.3 < share < 0.7, "different positions must be independent"


def test_dropout_is_seeded_by_update_and_micro_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a run that was resumed."""
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(shared_work, "seed_dropout", lambda *position: asked.append(position))
    settings: dict[str, Any] = {"updates": 3, "accumulate": 2, "seed": 8}
    first = toy_trainer(tmp_path, **settings)
    first.train(Recorder(), should_stop=lambda: first.state.updates == 2)
    resume(toy_trainer(tmp_path, resume=True, **settings)).train(Recorder())
    assert asked == [(8, update, micro_step, 0) for update in range(3) for micro_step in range(2)]


def test_dropout_is_the_same_in_every_run(tmp_path: Path) -> None:
    losses: list[list[float]] = []
    for name, dropout in (("a", 0.5), ("b", 0.5), ("c", 0.0)):
        trainer = toy_trainer(tmp_path / name, dropout=dropout, updates=3)
        trainer.train(watcher := Recorder())
        losses.append([step.loss for step in watcher.steps])
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_steps_report_where_the_run_is(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path, updates=8, accumulate=2)
    trainer.train(watcher := Recorder())
    assert [step.updates for step in watcher.steps] == list(range(1, 9))
    assert [step.progress for step in watcher.steps] == [update / 8 for update in range(8)]
    batches = task_of(trainer).plan.batches_per_epoch
    assert [step.epoch for step in watcher.steps] == [2 * update / batches for update in range(1, 9)]
    state = json.loads((trainer.run.checkpoints / "step-000008" / "state.json").read_text())
    assert (state["updates"], state["position"]) == (8, 16)
    assert state["seconds"] >= sum(step.seconds for step in watcher.steps) * 0.9
