"""A trial of int8 at the end of training: the model answers the same texts in float32 and in int8."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.precision import MEASURES, PrecisionRecord
from dikkat_runtime.errors import msg
from dikkat_runtime.run.weights import read_checksum

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
        fewest = MEASURES[record.measure].fewest
        return msg("int8 {change} on {count:,} validation texts ({scores}), fewer than {minimum}: {choice}").fill(
            record.change, record.count, scores, fewest, taken
        )
    return msg(
        "int8 {change} on {count:,} validation texts ({scores}): {choice}", record.change, record.count, scores, taken
    )
