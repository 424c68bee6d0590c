"""Train a translator from raw text to a finished run directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import torch

from dikkat.config import RunConfig, TrainingConfig
from dikkat.data.batching import BatchPlan
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.text_files import read_lines
from dikkat.errors import DataError, UsageError
from dikkat.explain.plots import plot_training
from dikkat.models.factory import build_model
from dikkat.native.library import why_absent
from dikkat.native.processor import has_fast_bfloat16, keep_freed_memory, processor_name
from dikkat.pipelines.card import card
from dikkat.pipelines.preparation import TrainRequest, prepare
from dikkat.pipelines.translation import run_config
from dikkat.pipelines.watching import MapDiary, WatchedValidator
from dikkat.run_directory import RunDirectory
from dikkat.text.tokenizer import Tokenizer
from dikkat.training.budget import Budget, TimeBudget, UpdateBudget
from dikkat.training.loop import Trainer, Watcher
from dikkat.training.validation import Validator

END_RESERVE = 3.0
"""Seconds kept for the picture, the card and the end of the process."""


class TrainWatcher(Watcher, Protocol):
    """Sees the preparation as well."""

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training run ended."""

    finished: bool
    """False if it was stopped; it can be resumed."""
    best_chrf: float


def train_translator(
    request: TrainRequest,
    out: Path,
    watcher: TrainWatcher,
    *,
    resume: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    started: float | None = None,
    command: str = "",
    watch: Path | None = None,
) -> Outcome:
    """Read, clean, split, tokenize, train, validate, and leave a run directory at `out`.

    `started` is when the time limit began to count (`time.monotonic`). `watch` is an HTML file that follows the run.
    Raises the errors of every step.
    """
    started = time.monotonic() if started is None else started
    diary = None if watch is None else MapDiary(watch, RunDirectory(out), watcher, watcher.note)
    run = RunDirectory.create(out, resume=resume)
    report = None
    if resume and run.has_config:
        config = run_config(run.read_config(), str(run.config))
        if request.data or request.settings or request.preset:
            watcher.note(f"resuming with the data and settings in {out}; those of the command line are not read")
    elif request.data:
        config, report = prepare(request, run)
    else:
        raise UsageError(f"{out}: its preparation was interrupted; give the data again")
    trainer = _trainer(run, config, started, diary)
    watcher.prepared(config, report, _facts(trainer, config))
    if checkpoint := run.latest_checkpoint():
        for problem in checkpoint.problems:
            watcher.note(f"{problem}; going back to {checkpoint.path.name}")
        trainer.resume(checkpoint)
        if isinstance(trainer.budget, TimeBudget):
            trainer.budget.already = trainer.state.seconds
        watcher.note(f"resumed at update {trainer.state.updates}")
    else:
        # the first validation writes its row before its checkpoint
        run.truncate_metrics(after_step=0)
    finished = _train(trainer, watcher, diary, should_stop, started)
    if finished:
        _finish(run, command)
    return Outcome(finished, trainer.state.best_chrf)


def _train(
    trainer: Trainer, watcher: Watcher, diary: MapDiary | None, should_stop: Callable[[], bool], started: float
) -> bool:
    if diary is None:
        return trainer.train(watcher, should_stop, started)
    finished = False
    try:
        finished = trainer.train(diary, should_stop, started)
    finally:
        diary.close(finished=finished)
    return finished


def _trainer(run: RunDirectory, config: RunConfig, started: float, diary: MapDiary | None) -> Trainer:
    keep_freed_memory()
    tokenizer = Tokenizer.load(run.tokenizer)
    corpus = Corpus.open(run.corpus, "train")
    sources, targets = (list(read_lines(run.held_out("validation", side))) for side in ("source", "target"))
    new_validator = Validator if diary is None else partial(WatchedValidator, diary)
    validator = new_validator(Corpus.open(run.corpus, "validation"), tokenizer, sources, targets)
    model = build_model(config.model, config.training.seed)
    settings = config.training
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, settings.tokens_per_batch, settings.seed)
    budget = _budget(settings, plan.batches_per_epoch, started)
    return Trainer(model, corpus, validator, run, settings, budget, compute_dtype(settings))


def _budget(config: TrainingConfig, batches_per_epoch: int, started: float) -> Budget:
    if config.minutes is not None:
        return TimeBudget(max(1.0, config.minutes * 60.0 - END_RESERVE), started)
    return UpdateBudget(max(1, round(config.max_epochs * batches_per_epoch / config.accumulate)))


def compute_dtype(config: TrainingConfig) -> torch.dtype:
    """The type of the matrix products: as configured, or bfloat16 where the processor multiplies it in hardware."""
    if config.precision == "auto":
        return torch.bfloat16 if has_fast_bfloat16() else torch.float32
    return torch.bfloat16 if config.precision == "bfloat16" else torch.float32


def _facts(trainer: Trainer, config: RunConfig) -> dict[str, str]:
    """What is worth knowing before the first update."""
    padding = trainer.plan.padding_share(trainer.plan.epoch(0))
    model = config.model
    return {
        "pairs": f"{len(trainer.corpus):,} to train on",
        "model": f"{model.encoder_layers}+{model.decoder_layers} layers, width {model.model_dim},"
        f" {trainer.parameters.master.numel():,} parameters, vocabulary {model.vocab_size:,}",
        "batches": f"{trainer.plan.batches_per_epoch:,} a pass, padding {padding[0]:.1%} of the source,"
        f" {padding[1]:.1%} of the target",
        "numbers": f"{str(trainer.parameters.working.dtype).removeprefix('torch.')},"
        f" {torch.get_num_threads()} threads, {processor_name()},"
        f" {'PyTorch alone (' + absent + ')' if (absent := why_absent()) else 'native kernels'}",
    }


def _finish(run: RunDirectory, command: str) -> None:
    rows = run.read_metrics()
    if not rows:
        raise DataError(f"{run.metrics}: no validation was recorded, so there is nothing to finish")
    plot_training(rows, run.path / "training.png", title=run.path.name)
    run.write_text(run.card.name, card(run.read_config(), rows, command, run.foreign_metrics()))
