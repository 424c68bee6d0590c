"""Train a Transformer and a recurrent translator of equal size on the same pairs, and time them to equal scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dikkat.config import RunConfig, build_config, merge
from dikkat.data.batching import Batch, BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.data.pairs import Pair
from dikkat.decoding.greedy import greedy
from dikkat.decoding.padding import pad_sources
from dikkat.evaluation import score_translations
from dikkat.explain.comparison.layers import count_parameters
from dikkat.explain.comparison.recurrent_translator import CELLS, TranslatorCell, recurrent_translator
from dikkat.explain.comparison.settings import MAX_SEED, MAX_UPDATES, check_range
from dikkat.explain.comparison.translation_race import Look, Race, Racer
from dikkat.kernels.processor import processor_name
from dikkat.models.factory import build_model
from dikkat.tasks.common.work_items import PieceCounter, Watch
from dikkat.tasks.translation.prepare import TrainRequest, read_parts
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat.training.translation import batch_loss
from dikkat.training.validation import decoding_options
from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import msg

LEARNING_RATE = {"transformer": 2e-3, "recurrent": 4e-3}
"""Chosen without a search; constant after `WARM_UP` updates."""
WARM_UP = 50
_MAX_GRADIENT = 1.0
_DECODED_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class RaceSettings:
    """Hold how two translators are compared. Raises `UsageError` naming the setting, the limit and the value."""

    data: tuple[str, ...]
    """As for `train`, or `phrasebook:fr`."""
    pairs: int = 25_000
    """At most so many are learned."""
    held_out: int = 200
    """At most so many are translated at each look."""
    enough: float = 95.0
    """chrF at which a training ends."""
    updates: int = 1500
    """At which it ends at the latest."""
    every: int = 25
    """Updates between two looks."""
    cell: TranslatorCell = "gru"
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("updates", self.updates, 1, MAX_UPDATES)
        check_range("seed", self.seed, 0, MAX_SEED)
        if self.cell not in CELLS:
            raise UsageError('there is no cell "{cell}" of a translator; choose from {cells}').fill(
                self.cell, ", ".join(CELLS)
            )


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What both learn."""

    config: RunConfig
    vocabularies: Vocabularies
    corpus: Corpus
    held_out: list[Pair]


def race(settings: RaceSettings, watch: Watch) -> Race:
    """Train both in turn. Raises `UsageError`, `MissingInputError` or `DataError` for the data."""
    lesson = _lesson(settings)
    counter = PieceCounter(2 * -(-settings.updates // settings.every), watch)
    model = lesson.config.model
    transformer = build_model(model, settings.seed)
    # the tied output matrix comes as two names of one
    size = count_parameters(transformer)
    other = recurrent_translator(size, model.vocab_size, model.model_dim, settings.cell, model.dropout, settings.seed)
    racers = (
        _trained("Transformer", transformer, LEARNING_RATE["transformer"], lesson, settings, counter),
        _trained(settings.cell.upper(), other, LEARNING_RATE["recurrent"], lesson, settings, counter),
    )
    machine = f"{processor_name()}, {torch.get_num_threads()} × PyTorch {torch.__version__}"
    return Race(
        " ".join(settings.data), len(lesson.corpus), len(lesson.held_out), lesson.config.training.tokens_per_batch,
        model.vocab_size, settings.seed, machine, racers,
    )  # fmt: skip


def _lesson(settings: RaceSettings) -> _Lesson:
    request = TrainRequest(list(settings.data), preset="tiny")
    parts, config = read_parts(request)
    pairs, held_out = parts.train[: settings.pairs], parts.validation[: settings.held_out]
    vocabularies = Vocabularies.train([pair.source for pair in pairs], [pair.target for pair in pairs], config)
    config = build_config(merge(config.model_dump(), {"model": vocabularies.sizes}))
    sources = vocabularies.source.encode_batch([pair.source for pair in pairs])
    targets = vocabularies.target.encode_batch([pair.target for pair in pairs])
    longest = config.data.max_length
    kept = [both for both in zip(sources, targets, strict=True) if max(map(len, both)) <= longest]
    return _Lesson(config, vocabularies, Corpus.in_memory(kept), held_out)


def _trained(
    name: str, model: Any, rate: float, lesson: _Lesson, settings: RaceSettings, counter: PieceCounter
) -> Racer:
    """Learn until the score is enough or the updates are over; the clock stands still while it is scored."""
    training = lesson.config.training
    corpus = lesson.corpus
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, training.tokens_per_batch, settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / WARM_UP))
    seconds, tokens, looks = 0.0, 0, list[Look]()
    torch.manual_seed(settings.seed)
    for update in range(1, settings.updates + 1):
        started = time.process_time()
        batch = collate(corpus, plan.at(update - 1)[1])
        _update(model, batch, optimizer, training.label_smoothing)
        schedule.step()
        seconds += time.process_time() - started
        tokens += batch.num_tokens
        if update % settings.every == 0 or update == settings.updates:
            counter(msg("training {name}").fill(name))
            looks.append(Look(update, seconds, _score(model, lesson)))
            if looks[-1].chrf >= settings.enough:
                break
    return Racer(name, count_parameters(model), tokens / seconds, tuple(looks))


def _update(model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, smoothing: float) -> None:
    model.train()
    loss = batch_loss(model, batch, smoothing)  # type: ignore[arg-type]
    optimizer.zero_grad()
    (loss.objective / loss.predictions).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRADIENT)
    optimizer.step()


def _score(model: Any, lesson: _Lesson) -> float:
    """Return chrF of greedy translations of what was held out."""
    model.eval()
    tokenizer, options = lesson.vocabularies.target, decoding_options(lesson.corpus)
    sources = lesson.vocabularies.source.encode_batch([pair.source for pair in lesson.held_out])
    written: list[Sequence[int]] = []
    for start in range(0, len(sources), _DECODED_AT_ONCE):
        some = [[*ids] for ids in sources[start : start + _DECODED_AT_ONCE]]
        ids, mask = pad_sources(some, torch.device("cpu"))
        written += [hypothesis.tokens for hypothesis in greedy(model, ids, mask, options)]
    return score_translations(tokenizer.decode_batch(written), [pair.target for pair in lesson.held_out]).chrf
