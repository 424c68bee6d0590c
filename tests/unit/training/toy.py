"""A toy translator in memory: a corpus of random ids, a small model, and a validator whose scores are prescribed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.config import ModelConfig, TrainingConfig
from dikkat.data.corpus import Corpus
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.training.budget import Budget, UpdateBudget
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision
from dikkat.training.task import StepReport, Stop, Validation, never
from dikkat.training.translation import TranslationTask, Validator

VOCABULARY = 24
MODEL = ModelConfig(
    vocab_size=VOCABULARY, model_dim=16, num_heads=2, feed_forward_dim=24, encoder_layers=1, decoder_layers=1
)


def toy_model(dropout: float = 0.0, seed: int = 3, **overrides: Any) -> EncoderDecoder:
    """A model of 1 + 1 layers."""
    return build_model(MODEL.model_copy(update={"dropout": dropout, **overrides}), seed)


def toy_corpus(folder: Path, pairs: int = 30) -> Corpus:
    """Random ids; the target is the source backwards."""
    generator = np.random.default_rng(7)
    rows = [generator.integers(4, VOCABULARY, size=generator.integers(1, 8)).tolist() for _ in range(pairs)]
    return Corpus.build(folder, "train", [(row, row[::-1]) for row in rows])


class ScriptedValidator(Validator):
    """Validations with prescribed chrF (the last one repeats), which remember the weights they were shown."""

    def __init__(self, chrf: Sequence[float] = (), losses: Sequence[float] = ()) -> None:
        self.chrf = list(chrf)
        self.losses = list(losses)
        self.seen: list[Tensor] = []

    def limit(self, share: float) -> float:
        return 1.0

    def __call__(
        self, model: EncoderDecoder, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS
    ) -> Validation:
        assert not model.training
        self.seen.append(torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()]))
        chrf = self.chrf[min(number, len(self.chrf) - 1)] if self.chrf else float(number)
        loss = self.losses[min(number, len(self.losses) - 1)] if self.losses else 1.0
        return Validation(loss, {"chrf": chrf, "bleu": chrf / 2}, chrf, (("source", "text"),))


@dataclass
class Recorder:
    """A watcher that keeps what it is told, and calls `each_step` after every update."""

    steps: list[StepReport] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)
    best: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    each_step: Callable[[StepReport], None] = lambda report: None

    def step(self, report: StepReport) -> None:
        self.steps.append(report)
        self.each_step(report)

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
        self.rows.append(row)
        self.best.append(is_best)

    def note(self, text: str) -> None:
        self.notes.append(text)


FLOAT32 = Precision()


def toy_trainer(
    folder: Path,
    *,
    updates: int = 12,
    dropout: float = 0.0,
    precision: Precision = FLOAT32,
    validator: Validator | None = None,
    budget: Budget | None = None,
    resume: bool = False,
    **settings: Any,
) -> Trainer:
    """A trainer in `folder`; `settings` override a training config made for a dozen updates."""
    folder.mkdir(parents=True, exist_ok=True)
    run = RunDirectory.create(folder / "run", resume=resume)
    if not resume:
        run.write_config({"task": "test"})
    defaults: dict[str, Any] = {
        "optimizer": "adamw",
        "average": "ema",
        "tokens_per_batch": 40,
        "learning_rate": 1e-2,
        "warmup_steps": 3,
        "validations": 4,
        "patience": 99,
    }
    config = TrainingConfig(**{**defaults, **settings})
    corpus = toy_corpus(folder / "data")
    task = TranslationTask(toy_model(dropout), corpus, validator or ScriptedValidator(), config)
    return Trainer(task, run, config, budget or UpdateBudget(updates), precision)


def task_of(trainer: Trainer) -> TranslationTask:
    """The task of a toy trainer, known to be a translation."""
    assert isinstance(trainer.task, TranslationTask)
    return trainer.task
