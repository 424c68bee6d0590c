"""The size of a model that can learn something in the time that there is, on the machine that there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dikkat.config import Device, RunConfig, build_config, merge
from dikkat.pipelines.language_model_sizing import language_model_settings
from dikkat.pipelines.sizing import Settings, settings_for
from dikkat.pipelines.speed import language_model_seconds, translator_seconds

NEEDED_UPDATES = 600
"""With fewer a model writes nothing that can be read, whatever its size."""
LEARNING_SHARE = 0.85
"""Share of the time that is left to the updates by preparation, validations and saves."""
FEW_PASSES: Settings = {"model": {"dropout": 0.05}}
"""A model that is small for its data sees it too seldom to learn it by heart."""


def needed_updates(config: RunConfig, batches_per_epoch: float) -> int:
    """Updates without which a run is not worth its time: all of a short one."""
    planned = config.training.max_epochs * max(1.0, batches_per_epoch) / config.training.accumulate
    return max(1, min(NEEDED_UPDATES, round(planned)))


def advised_minutes(minutes: float, updates: int, needed: int, seconds: float) -> int:
    """Minutes to ask for where `minutes` hold only `updates` of those `needed`, each of so many `seconds`.

    It is said when a run begins and when it ends. Rounded up to two digits, since the pace is measured anew; at least
    twice the time, or the next run would end as short of it.
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
    """The first of `candidates`, which get smaller, whose needed updates fit in `minutes`; else the last.

    `seconds` measures an update of a model, whose limit it is told.
    """
    for settings in candidates[:-1]:
        config = build_config(settings)
        limit = LEARNING_SHARE * 60.0 * minutes / needed(config)
        if seconds(config, limit) <= limit:
            return settings
    return candidates[-1]


def translator_settings(pairs: int, asked: Settings, device: Device = "cpu") -> Settings:
    """`settings_for` so many pairs, or what is smaller where the time that is `asked` for does not carry it."""
    minutes = _minutes(asked)
    own = settings_for(pairs, minutes)
    if minutes is None or not _may_choose(pairs, asked, device):
        return own
    smaller = (settings_for(amount, minutes) for amount in (299_999, 14_999, 2_999) if amount < pairs)
    candidates = [own, *(merge(settings, FEW_PASSES) for settings in smaller)]

    def needed(config: RunConfig) -> int:
        return needed_updates(config, pairs * 16 / config.training.tokens_per_batch)

    return fitting(_with(candidates, asked), minutes, translator_seconds, needed)


def language_model_settings_for(characters: int, asked: Settings, device: Device = "cpu") -> Settings:
    """`language_model_settings` for so much text, or what is smaller where the time asked for does not carry it."""
    minutes, own = _minutes(asked), language_model_settings(characters)
    if minutes is None or not _may_choose(characters, asked, device):
        return own
    smaller = (language_model_settings(amount) for amount in (49_999_999, 4_999_999, 299_999) if amount < characters)
    kept: Settings = merge(FEW_PASSES, {"tokenizer": own["tokenizer"]})
    candidates = [own, *(merge(settings, kept) for settings in smaller)]

    def needed(config: RunConfig) -> int:
        tokens = characters / (4 if config.tokenizer.kind == "bpe" else 1)
        return needed_updates(config, tokens / config.training.tokens_per_batch)

    return fitting(_with(candidates, asked), minutes, language_model_seconds, needed)


def _minutes(asked: Settings) -> float | None:
    minutes: Any = asked.get("training", {}).get("minutes")
    return float(minutes) if isinstance(minutes, int | float) and minutes > 0 else None


def _may_choose(amount: int, asked: Settings, device: Device) -> bool:
    """Whether there is data to learn, on a processor, and the user did not choose the size."""
    return amount > 0 and device == "cpu" and not asked.get("model")


def _with(candidates: Iterable[Settings], asked: Settings) -> list[Settings]:
    """What decides the speed beside the size is as `asked`."""
    training = {key: value for key, value in asked.get("training", {}).items() if key != "minutes"}
    return [merge(settings, {"training": training}) for settings in candidates]
