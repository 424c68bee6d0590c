"""What the heads of a model without cross-attention are measured on: held-out text, its maps, and its loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from dikkat.explain.head_analysis.importance import Quality
from dikkat.explain.head_analysis.portrait import Portraits
from dikkat_runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class HeadSubject:
    """A model whose heads are all those of self-attention, and the texts they are examined on."""

    model: nn.Module
    kind: str
    """`classifier`, `multi_label` or `lm`: names what is measured."""
    count: int
    """Texts, or windows of text."""
    observe: Callable[[Portraits, Sequence[int]], None]
    """Adds the maps of the texts of these numbers."""
    measure: Callable[[Sequence[int]], Quality]
    """How good the model is on them, as it is now."""


def spread(count: int, most: int, path: Path) -> list[int]:
    if not count:
        raise DataError(f"{path}: there is no text to examine the heads on")
    return [int(index) for index in np.unique(np.linspace(0, count - 1, most).astype(int))]
