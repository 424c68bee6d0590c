"""Measure speed on this machine, and choose the size that the time limit leaves enough updates for."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from dikkat.config import RunConfig, TrainingConfig, build_config, merge
from dikkat.data.batching import Batch
from dikkat.data.packing import Packed, next_tokens
from dikkat.models.factory import build_language_model, build_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings
from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.language_modelling import batch_loss as language_model_loss
from dikkat.training.loop import Trainer
from dikkat.training.precision import precision_of
from dikkat.training.task import WHOLE, Baseline, BatchLoss, Part, Stop, Validation, never
from dikkat.training.translation import batch_loss
from dikkat_runtime.engine.options import Device, Precision
from dikkat_runtime.engine.precision import MEASURES, PrecisionRecord
from dikkat_runtime.errors import msg
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.special_tokens import EOS_ID

NEEDED_UPDATES = 600
"""Updates below which a model of any size writes nothing readable."""
LEARNING_SHARE = 0.85
"""Share of the time limit that is left for updates by preparation, validations and saves."""
FEW_PASSES: Settings = {"model": {"dropout": 0.05}}
"""A model that is small for its data sees each example too seldom to overfit."""


def needed_updates(config: RunConfig, batches_per_epoch: float) -> int:
    """Return how many updates a run needs to be worth its time: at most those that it plans."""
    planned = config.training.max_epochs * max(1.0, batches_per_epoch) / config.training.accumulate
    return max(1, min(NEEDED_UPDATES, round(planned)))


def advised_minutes(minutes: float, updates: int, needed: int, seconds: float) -> int:
    """Return the minutes to ask for where `minutes` hold only `updates` of the `needed` ones.

    `seconds` is the time of one update. The advice is given when a run begins and when it ends. It is rounded up to two
    digits, because the next run measures its speed anew, and is at least twice the time, so that the next run does not
    fall short again.
    """
    exact = minutes + max(0, needed - updates) * seconds / LEARNING_SHARE / 60.0
    whole = math.ceil(max(exact, 2 * minutes))
    step = 5 if 10 <= whole < 100 else 10 ** max(0, len(str(whole)) - 2)
    return math.ceil(whole / step) * step


def fitting(
    candidates: Sequence[Settings],
    minutes: float,
    seconds: Callable[[RunConfig, float], float],
    needed: Callable[[RunConfig], int],
) -> Settings:
    """Return the first of `candidates` whose needed updates fit into `minutes`, or else the last.

    `candidates` get smaller. `seconds` measures one update of a model and receives the limit above which an exact time
    does not matter.
    """
    for settings in candidates[:-1]:
        config = build_config(settings)
        limit = LEARNING_SHARE * 60.0 * minutes / needed(config)
        if seconds(config, limit) <= limit:
            return settings
    return candidates[-1]


def asked_minutes(asked: Settings) -> float | None:
    """Return the time limit that the user asked for in minutes, or None."""
    minutes: Any = asked.get("training", {}).get("minutes")
    return float(minutes) if isinstance(minutes, int | float) and minutes > 0 else None


def may_choose_size(amount: int, asked: Settings, device: Device) -> bool:
    """Return whether the size may be chosen: there is data, the device is the CPU, and the user named no size."""
    return amount > 0 and device == "cpu" and not asked.get("model")


def with_asked_training(candidates: Iterable[Settings], asked: Settings) -> list[Settings]:
    """Return `candidates` with the training settings that the user `asked` for, except the time limit."""
    training = {key: value for key, value in asked.get("training", {}).items() if key != "minutes"}
    return [merge(settings, {"training": training}) for settings in candidates]


# Measure how long an update of a model takes on this machine, on synthetic batches.


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
        return self._loss(0.125 if position == 0 else 1.0)

    def baseline(self) -> Baseline:
        return Baseline(-math.inf, 0.0, "nothing")

    def limit_validation(self, share: float) -> float:
        """Return 1.0: there is no validation to shorten."""
        return share

    def validate(self, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS) -> Validation:
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


# A trial of int8 at the end of training: the model answers the same texts in float32 and in int8.


MAX_TEXTS = 1_000
"""So many are answered at most."""
TEXTS_A_TURN = 128
"""Texts between two looks at the clock."""
MIN_SECONDS, SHARE_OF_TIME = 1.5, 0.005
"""What a run with a time limit spends on it: so much, or that share of its time."""

Answers = Callable[[Precision, Sequence[int]], list[Any]]
"""What a model answers to the validation texts of these numbers, one entry a text."""
Score = Callable[[list[Any], Sequence[int]], float]
"""From the answers and the numbers of their texts to the score."""


@dataclass(frozen=True, slots=True)
class PrecisionTrial:
    """The way one kind of model is tried: its measure, its texts and their scores."""

    measure: str
    """One of `MEASURES`."""
    count: int
    """Texts that there are."""
    answers: Answers
    score: Score


def seconds_of_trial(seconds: float) -> float:
    """Return the seconds that a trial may take in a run of `seconds`."""
    return max(MIN_SECONDS, SHARE_OF_TIME * seconds)


def try_precisions(run: RunDirectory, trial: PrecisionTrial, seconds: float) -> PrecisionRecord:
    """Answer texts in turn in both precisions, for about so long, and score them."""
    started = time.monotonic()
    # drawn, so that whatever part is reached is as mixed as the whole
    order = np.random.default_rng(0).permutation(trial.count)[:MAX_TEXTS].tolist()
    answers: dict[Precision, list[Any]] = {"float32": [], "int8": []}
    for start in range(0, len(order), TEXTS_A_TURN):
        if start and time.monotonic() - started > seconds:
            break
        for precision, before in answers.items():
            before += trial.answers(precision, order[start : start + TEXTS_A_TURN])
    tried = order[: len(answers["int8"])]
    scores = {precision: trial.score(answers_in, tried) for precision, answers_in in answers.items()}
    return PrecisionRecord(trial.measure, scores["float32"], scores["int8"], len(tried), read_checksum(run.weights))


def trial_line(record: PrecisionRecord) -> str:
    """Return one line about a record, for the log and the card."""
    scores = msg("{int8:.2f}, in float32 {float32:.2f}", record.int8, record.float32)
    taken = msg("--precision auto takes {precision}", record.precision)
    if record.has_too_few:
        return msg("int8 {change} on {count:,} validation texts ({scores}), fewer than {minimum}: {choice}").fill(
            record.change, record.count, scores, MEASURES[record.measure].fewest, taken
        )
    return msg(
        "int8 {change} on {count:,} validation texts ({scores}): {choice}", record.change, record.count, scores, taken
    )
