"""The content of the report of a finished translator, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.outline import Outline

# The content of the report of a classifier or a language model, as plain values and labelled lines.

Rows = Sequence[tuple[str, str]]
"""Names and numbers."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Hold one chart of training."""

    title: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    """Columns of metrics.jsonl, one or two."""


@dataclass(frozen=True, slots=True)
class Example:
    """Hold one held-out text, and what went wrong with it."""

    title: str
    lines: Rows
    """Labels and texts of the user's data."""


@dataclass(frozen=True, slots=True, eq=False)
class ReaderFacts:
    """Hold everything that the report of a finished run shows."""

    title: str
    name: str
    summary: Rows
    scored_on: str
    score_lines: Sequence[str]
    rate: str
    metrics: Sequence[Mapping[str, Any]]
    curves: Sequence[Curve]
    files: Sequence[str]
    data: Rows
    faults: Rows
    lengths: NDArray[np.int64]
    """Tokens of each training text or document."""
    worst_note: str
    worst: Sequence[Example]
    maps: Sequence[tuple[str, AttentionMap]]
    """Texts with the mean map of the heads of the last layer."""
    model: Rows
    card: str
    settings: str
    """Text of config.json."""
    note: str = ""
    """What who looks at the maps should know; empty where there is nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class DataFacts:
    """Hold facts about the training data."""

    files: tuple[str, ...]
    validation_files: tuple[str, ...]
    read: int
    """Pairs read, some of which were left out and others held out."""
    left_out: Mapping[str, int]
    """Pairs left out, by reason."""
    train_pairs: int
    validation_pairs: int
    test_pairs: int
    source_lengths: NDArray[np.int64]
    """Tokens of each training pair."""
    target_lengths: NDArray[np.int64]
    longest: tuple[str, str]
    """Training pair with the most tokens."""
    repetition: "Repetition"


@dataclass(frozen=True, slots=True)
class Repetition:
    """Hold how often the training data repeats itself, and what the held-out part shares with it."""

    examined: int
    """Training pairs examined."""
    same_pairs: int
    """Pairs that came before, exactly."""
    other_translations: int
    """Sources that have more than one translation."""
    unknown_tokens: int
    held_out: int
    """Held-out sentences examined."""
    held_out_seen: int
    """Held-out sentences whose source is in the training data too."""


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """Hold one held-out sentence with its translation and score."""

    source: str
    translation: str
    reference: str
    chrf: float


@dataclass(frozen=True, slots=True)
class HeldOutFacts:
    """Hold how well the run translates text it was not trained on."""

    is_test: bool
    """True for the test part, which training never used; False for the validation part, which chose the weights."""
    sentences: int
    bleu: float
    chrf: float
    lines: tuple[str, ...]
    """Scores with their signatures, and baselines."""
    worst: tuple[ScoredSentence, ...]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Hold everything that the report of a finished run shows."""

    name: str
    languages: tuple[str, str]
    metrics: Sequence[Mapping[str, Any]]
    """Rows of metrics.jsonl, one a validation."""
    data: DataFacts
    held_out: HeldOutFacts
    outline: Outline
    card: str
    settings: str
    """Text of config.json."""
    browser: str
    """Attention page, a whole HTML file."""
    note: str = ""
    """What who looks at the maps should know, such as which head was guided; empty where there is nothing."""
