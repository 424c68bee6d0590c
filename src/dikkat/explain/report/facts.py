"""What a report tells of a finished run: plain values, gathered from its directory by `tasks/inspection/report.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.drawing.outline import Outline


@dataclass(frozen=True, slots=True, eq=False)
class DataFacts:
    """What the run learned from."""

    files: tuple[str, ...]
    validation_files: tuple[str, ...]
    read: int
    """Pairs read, of which some were left out and others held out."""
    left_out: Mapping[str, int]
    """Pairs left out, by reason."""
    train_pairs: int
    validation_pairs: int
    test_pairs: int
    source_lengths: NDArray[np.int64]
    """Tokens of each training pair."""
    target_lengths: NDArray[np.int64]
    longest: tuple[str, str]
    """The training pair with the most tokens."""
    repetition: Repetition


@dataclass(frozen=True, slots=True)
class Repetition:
    """How often the training data says the same thing, and what the held-out part shares with it."""

    examined: int
    """Training pairs looked at."""
    same_pairs: int
    """Pairs that came before, exactly."""
    other_translations: int
    """Sources that have more than one translation."""
    unknown_tokens: int
    held_out: int
    """Held-out sentences looked at."""
    held_out_seen: int
    """Those whose source stands in the training data too."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One held-out sentence."""

    source: str
    translation: str
    reference: str
    chrf: float


@dataclass(frozen=True, slots=True)
class HeldOutFacts:
    """How well the run translates text it was not trained on."""

    is_test: bool
    """The test part, which training never looked at; else the validation part, by which the weights were chosen."""
    sentences: int
    bleu: float
    chrf: float
    lines: tuple[str, ...]
    """Scores with their signatures, and baselines."""
    worst: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A whole finished run."""

    name: str
    languages: tuple[str, str]
    metrics: Sequence[Mapping[str, Any]]
    """Rows of metrics.jsonl, one a validation."""
    data: DataFacts
    held_out: HeldOutFacts
    outline: Outline
    card: str
    settings: str
    """config.json."""
    browser: str
    """The page of attention, a whole HTML file."""
