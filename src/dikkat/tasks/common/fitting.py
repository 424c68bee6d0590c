"""The size of a model that can learn something in the time that there is, on the machine that there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dikkat.config import RunConfig, build_config, merge
from dikkat.tasks.common.settings import Settings
from dikkat_runtime.engine.options import Device

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


def asked_minutes(asked: Settings) -> float | None:
    minutes: Any = asked.get("training", {}).get("minutes")
    return float(minutes) if isinstance(minutes, int | float) and minutes > 0 else None


def may_choose_size(amount: int, asked: Settings, device: Device) -> bool:
    """Whether there is data to learn, on a processor, and the user did not choose the size."""
    return amount > 0 and device == "cpu" and not asked.get("model")


def with_asked_training(candidates: Iterable[Settings], asked: Settings) -> list[Settings]:
    """What decides the speed beside the size is as `asked`."""
    training = {key: value for key, value in asked.get("training", {}).items() if key != "minutes"}
    return [merge(settings, {"training": training}) for settings in candidates]
