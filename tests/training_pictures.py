"""Draws the picture of a training once for each kind of measurements: it takes longer than a small training itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dikkat.explain.plots import plot_training

TRAINING = "dikkat.tasks.common.train"
_drawn: dict[frozenset[str], bytes] = {}
"""The picture of the first training of this process that measured these things."""


def install() -> None:
    """From here on trainings in this process draw with `draw_once`."""
    vars(sys.modules[TRAINING])["plot_training"] = draw_once


def draw_once(metrics: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Draw a training, or write the picture of one that measured the same things under another plain name."""
    measured = frozenset(name for row in metrics for name, value in row.items() if value is not None)
    if measured in _drawn and title.isascii():
        path.write_bytes(_drawn[measured])
        return
    plot_training(metrics, path, title=title)
    _drawn[measured] = path.read_bytes()
