"""Choose the size of a model that the time limit leaves enough updates for, on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dikkat.config import RunConfig, build_config, merge
from dikkat.tasks.common.settings import Settings
from dikkat_runtime.engine.options import Device

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
