"""Measure how long an update of a model takes on this machine, on synthetic batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from dikkat.config import RunConfig, TrainingConfig
from dikkat.data.batching import Batch
from dikkat.data.packing import Packed, next_tokens
from dikkat.models.factory import build_language_model, build_model
from dikkat.run_directory import RunDirectory
from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.language_modelling import batch_loss as language_model_loss
from dikkat.training.loop import Trainer
from dikkat.training.precision import precision_of
from dikkat.training.task import WHOLE, Baseline, BatchLoss, Part, Stop, Validation, never
from dikkat.training.translation import batch_loss
from dikkat_runtime.errors import msg
from dikkat_runtime.special_tokens import EOS_ID

SENTENCE = 16
"""Tokens of a synthetic sentence, its end token among them."""
FAR_BEYOND = 2.0
"""Multiple of the limit above which no second measurement is needed."""
UPDATES = 2
"""Updates that are timed. The fastest one counts, since other processes only make an update slower."""


class SyntheticTask:
    """Train on synthetic batches to measure the time of an update.

    The first batch is small, since its update includes one-time costs.
    """

    unit = "tokens"
    batches_per_epoch = 1

    def __init__(self, model: nn.Module, loss: Callable[[float], BatchLoss]) -> None:
        self.model = model
        self._loss = loss

    def loss(self, position: int, progress: float, part: Part = WHOLE) -> BatchLoss:
        """Return the loss of a synthetic batch."""
        return self._loss(0.125 if position == 0 else 1.0)

    def baseline(self) -> Baseline:
        """Return a baseline of zero, which nothing reads."""
        return Baseline(-math.inf, 0.0, "nothing")

    def limit_validation(self, share: float) -> float:
        """Return 1.0: there is no validation to shorten."""
        return share

    def share_validation(self, ranks: Ranks) -> None:
        """Do nothing: there is no validation to share."""

    def validate(self, number: int, should_stop: Stop = never) -> Validation:
        """Return an empty validation."""
        raise NotImplementedError(msg("there is nothing to validate on"))


def translator_seconds(config: RunConfig, limit: float) -> float:
    """Measure the seconds that an update of a translator of `config` takes.

    The vocabulary has the largest size that `config` allows. Far above `limit` one measurement is enough.
    """
    vocabulary = config.tokenizer.vocab_size
    sizes = {
        "vocab_size": vocabulary,
        "target_vocab_size": vocabulary if config.data.vocabularies == "separate" else None,
    }
    model = build_model(config.model.model_copy(update=sizes), config.training.seed)

    def loss(share: float) -> BatchLoss:
        rows = max(1, int(share * config.training.tokens_per_batch) // SENTENCE)
        ids = _random_ids((rows, SENTENCE), vocabulary)
        ids[:, -1] = EOS_ID
        return batch_loss(model, Batch(ids, np.roll(ids, 1, axis=1), ids, np.arange(rows)), 0.1)

    return _seconds(SyntheticTask(model, loss), config.training, limit)


def language_model_seconds(config: RunConfig, limit: float) -> float:
    """Measure the seconds that an update of a language model of `config` takes; see `translator_seconds`."""
    vocabulary, context = config.tokenizer.vocab_size, config.language_model.context
    if config.tokenizer.kind not in ("bpe", "unigram"):
        vocabulary = 300
    model = build_language_model(
        config.model.model_copy(update={"vocab_size": vocabulary}), "causal", config.training.seed
    )

    def loss(share: float) -> BatchLoss:
        rows = max(1, int(share * config.training.tokens_per_batch) // context)
        return language_model_loss(model, next_tokens(Packed(_random_ids((rows, context + 1), vocabulary), None)), 0.0)

    return _seconds(SyntheticTask(model, loss), config.training, limit)


def _random_ids(shape: tuple[int, int], vocabulary: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(EOS_ID + 1, vocabulary, size=shape)


def _seconds(task: SyntheticTask, config: TrainingConfig, limit: float) -> float:
    trainer = Trainer(task, RunDirectory(Path()), config, UpdateBudget(1), precision_of(config, task.model))
    seconds: list[float] = []
    while len(seconds) <= UPDATES:
        started = time.monotonic()
        trainer.launch(0.5)[0].tolist()
        seconds.append(time.monotonic() - started)
        if min(seconds) > FAR_BEYOND * limit:
            return min(seconds)
    return min(seconds[1:])
