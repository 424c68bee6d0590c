"""What is wrong with a run that came to its end, and the command that makes a better one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dikkat.config import TrainingConfig
from dikkat.hints import NAME, called_program
from dikkat.tasks.common.settings import free_folder
from dikkat.training.task import Baseline

STILL_FALLING = 0.3
"""Share of its mean fall an update that the loss still falls by in the last interval, where it is not done."""
LEAST_FALL = 0.02
"""Share of the loss that a fall is worth the mention from."""
MOST_OVERHEAD = 0.3
"""Share of the time of a run that validations and saves take without a word."""
SHORT = 60.0
"""Seconds of a run that nobody waits for."""

MORE_TIMES, MANY_TIMES = 3, 10
"""As long as a run must be that is made again: one that had begun to learn, and one that had not."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run came to its end."""

    rows: Sequence[dict[str, Any]]
    best_score: float
    baseline: Baseline
    overhead: float
    """Share of its time that went to validations and saves."""
    seconds: float
    """How long it took; of a short run no share of it is worth a word."""
    shortcomings: tuple[str, ...] = ()
    """What is wrong with its data."""


def problems(ending: Ending) -> list[str]:
    """What is wrong, each as the part of a sentence; nothing of a run that ended well."""
    found: list[str] = []
    if learned_nothing(ending):
        found.append(f"it has learned nothing of use: it is no better than {ending.baseline.what}")
    if is_still_falling(ending.rows):
        found.append("its loss was still falling steeply when it ended")
    if ending.overhead > MOST_OVERHEAD and ending.seconds > SHORT:
        found.append(f"{ending.overhead:.0%} of its time went to validations and saves")
    return [*found, *ending.shortcomings]


def learned_nothing(ending: Ending) -> bool:
    """Whether the best score is no better than that of one who has learned nothing."""
    return ending.best_score <= ending.baseline.score + ending.baseline.margin


def is_still_falling(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether the validation loss falls in the last interval nearly as fast as it did in the mean of all."""
    if len(rows) < 3:
        return False
    first, before, last = rows[0], rows[-2], rows[-1]
    steps = last["step"] - before["step"]
    if steps <= 0 or before["valid_loss"] - last["valid_loss"] < LEAST_FALL * last["valid_loss"]:
        return False
    mean = (first["valid_loss"] - last["valid_loss"]) / (last["step"] - first["step"])
    return bool((before["valid_loss"] - last["valid_loss"]) / steps > STILL_FALLING * mean)


def longer_run(
    command: str,
    kind: str,
    data: Sequence[str],
    out: Path,
    training: TrainingConfig,
    times: int,
    minutes: int | None = None,
) -> str:
    """The command that trains `times` as long, or so many `minutes`, into a new folder, quoted for the shell.

    It is `command`, which made the run at `out`, changed; where that is not known, one from the `kind` of model and the
    `data`.
    """
    words = shlex.split(command) if command else []
    if words[1:3] != ["train", kind]:
        words = [NAME, "train", kind, *data]
    words = _with(words, "--out", str(free_folder(out)))
    if training.minutes is not None:
        words = _with(words, "--minutes", f"{times * training.minutes if minutes is None else minutes:g}")
        # a model that learned nothing at all is too large for the time; the one that is chosen will fit
        words = _without(words, "--preset") if times >= MANY_TIMES else words
    elif training.max_updates is not None:
        words = _with_setting(words, "training.max_updates", f"{times * training.max_updates}")
    else:
        words = _with_setting(words, "training.max_epochs", f"{times * training.max_epochs:g}")
    return f"{called_program()} {shlex.join(words[1:])}"


def _with_setting(words: Sequence[str], name: str, value: str) -> list[str]:
    """With `--set name=value` instead of what was set before."""
    given = {place for place, word in enumerate(words) if word.startswith(f"{name}=") and words[place - 1] == "--set"}
    kept = [word for place, word in enumerate(words) if place not in given and place + 1 not in given]
    return [*kept, "--set", f"{name}={value}"]


def _with(words: Sequence[str], option: str, value: str) -> list[str]:
    return [*_without(words, option), option, value]


def _without(words: Sequence[str], option: str) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith(f"{option}="):
            skip = False
        elif word == option:
            skip = True
        else:
            kept.append(word)
    return kept
