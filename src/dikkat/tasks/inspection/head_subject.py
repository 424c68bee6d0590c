"""The held-out text, maps and loss that the heads of a model without cross-attention are measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from dikkat.explain.head_analysis.head_stats import HeadStatsCollector
from dikkat.explain.head_analysis.importance import Quality
from dikkat_runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class HeadSubject:
    """Hold a model that has only self-attention, and the texts that its heads are measured on."""

    model: nn.Module
    kind: str
    """`classifier`, `multi_label` or `lm`: names the measure."""
    count: int
    """Number of texts, or of windows of text."""
    observe: Callable[[HeadStatsCollector, Sequence[int]], None]
    """Adds the maps of the texts with these indices."""
    measure: Callable[[Sequence[int]], Quality]
    """Returns the quality of the model, as it is now, on the texts with these indices."""
    note: str = ""
    """What who looks at the heads should know; empty where there is nothing."""


def spread(count: int, most: int, path: Path) -> list[int]:
    """Return at most `most` indices below `count`, evenly spread.

    Raises `DataError` naming `path` when there is no text.
    """
    if not count:
        raise DataError("{path}: there is no text to examine the heads on", path)
    return [int(index) for index in np.unique(np.linspace(0, count - 1, most).astype(int))]
