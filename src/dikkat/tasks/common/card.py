"""Write what the card of a run says: its facts, what is wrong with it, and the command that makes a better one."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dikkat.config import TrainingConfig
from dikkat.tasks.common.settings import free_folder
from dikkat.training.task import Baseline
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import NAME, called_program, without_options

STILL_FALLING = 0.3
"""Share of the mean fall of the loss above which the fall in the last interval counts as steep."""
MIN_FALL = 0.02
"""Relative fall of the loss below which it counts as flat."""
MAX_OVERHEAD = 0.3
"""Share of the time that validations and saves may take before it is reported."""
SHORT = 60.0
"""Seconds of a run below which its overhead is not reported."""

MORE_TIMES, MANY_TIMES = 3, 10
"""How many times longer the next run should be: one that had begun to learn, and one that had not."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Hold the facts about a finished run that `problems` judges."""

    rows: Sequence[dict[str, Any]]
    best_score: float
    baseline: Baseline
    overhead: float
    """Share of the time that went to validations and saves."""
    seconds: float
    """Length of the run in seconds."""
    shortcomings: tuple[str, ...] = ()
    """What is wrong with the data."""


def problems(ending: Ending) -> list[str]:
    """Return what is wrong with the run, each as a clause of a sentence; empty for a good run."""
    clauses: list[str] = []
    if is_no_better_than_baseline(ending):
        clauses.append(msg("it has learned nothing of use: it is no better than {baseline}", ending.baseline.what))
    if is_still_falling(ending.rows):
        clauses.append(msg("its loss was still falling steeply when it ended"))
    if ending.overhead > MAX_OVERHEAD and ending.seconds > SHORT:
        clauses.append(msg("{overhead:.0%} of its time went to validations and saves", ending.overhead))
    return [*clauses, *ending.shortcomings]


def is_no_better_than_baseline(ending: Ending) -> bool:
    """Return whether the best score is within the margin of the score without learning."""
    return ending.best_score <= ending.baseline.score + ending.baseline.margin


def is_still_falling(rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether the validation loss fell in the last interval nearly as fast as on average."""
    if len(rows) < 3:
        return False
    first, before, last = rows[0], rows[-2], rows[-1]
    steps = last["step"] - before["step"]
    if steps <= 0 or before["valid_loss"] - last["valid_loss"] < MIN_FALL * last["valid_loss"]:
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
    """Return the command that trains `times` as long, or `minutes`, into a new folder, quoted for the shell.

    `command`, which made the run at `out`, is changed; where it is unknown, the command is built from the `kind` of
    model and the `data`.
    """
    # --language may stand before the name of a command
    words = shlex.split(command) if f" train {kind} " in command else [NAME, "train", kind, *data]
    words = _with(words, "--out", str(free_folder(out)))
    if training.minutes is not None:
        words = _with(words, "--minutes", f"{times * training.minutes if minutes is None else minutes:g}")
        # a model that learned nothing at all is too large for the time; the one that is chosen will fit
        words = without_options(words, ["--preset"]) if times >= MANY_TIMES else words
    elif training.max_updates is not None:
        words = _with_setting(words, "training.max_updates", f"{times * training.max_updates}")
    else:
        words = _with_setting(words, "training.max_epochs", f"{times * training.max_epochs:g}")
    return f"{called_program()} {shlex.join(words[1:])}"


def _with_setting(words: Sequence[str], name: str, value: str) -> list[str]:
    """With `--set name=value` instead of what was set before."""
    replaced = {
        index for index, word in enumerate(words) if word.startswith(f"{name}=") and words[index - 1] == "--set"
    }
    kept = [word for index, word in enumerate(words) if index not in replaced and index + 1 not in replaced]
    return [*kept, "--set", f"{name}={value}"]


def _with(words: Sequence[str], option: str, value: str) -> list[str]:
    return [*without_options(words, [option]), option, value]


def training_facts(settings: dict[str, Any]) -> list[str]:
    """Return the lines of a card that say how to make the run again.

    The command is missing from the settings of runs that were made before it was recorded.
    """
    if command := settings.get("command"):
        return ["", "To reproduce it:", "", f"    {command}"]
    return ["", "The command that made it was not noted."]


def left_out(source: dict[str, Any]) -> str:
    """Return how many examples were left out of the data and why, in words; "none" where none was."""
    return ", ".join(f"{count:,} {reason}" for reason, count in source["left_out"].items()) or "none"


def foreign_validations(numbers: Sequence[int]) -> list[str]:
    """Return the lines of a card that name validations measured under other settings; none without `numbers`."""
    if not numbers:
        return []
    listed = ", ".join(map(str, numbers))
    return ["", f"Validations measured under other settings than those in config.json: {listed}."]
