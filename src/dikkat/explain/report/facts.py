"""The content of the report of a finished run, as plain values and labelled lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.outline import Outline

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
    languages: Sequence[str] = ()
    """The language of each line, where it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts:
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
    lengths: Mapping[str, NDArray[np.int64]]
    """Tokens of each training text or document, by the name of the side."""
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
    examined: str = ""
    """The part of the data in which faults were looked for; empty for all of it."""
    longest: Example | None = None
    browser: str = ""
    """Attention page, a whole HTML file, instead of maps; empty where there are maps."""
    frontier: Sequence[Sequence[float]] = ()
    """Of an adaptation each share of what it learned, with the chrF of new and of general text; the whole first."""
    outline: Outline | None = None
    """The model to draw, where it can be drawn."""
