"""Draw the confusion matrix of a classifier, and the words that decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.fonts import fonts_with
from dikkat.explain.pictures import check_format, new_figure, printable, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL_INCHES = 0.6
_MAX_INCHES = 30.0
_NUMBERED_UP_TO = 20
"""Largest number of classes for which counts are written into the cells."""
_MAX_LABEL_LENGTH, _MAX_TITLE_LENGTH = 40, 90
_FOR, _AGAINST = "#c03a2b", "#3a6ea5"


def plot_confusion(labels: Sequence[str], confusion: NDArray[np.int64], path: Path) -> None:
    """Draw (C, C) counts; rows are the right class, columns the prediction, colours the shares of a row.

    Raises `UsageError` for a suffix that is not .png or .svg, `DiskError` or `CannotCreateError`.
    """
    check_format(path)
    names = [printable(label, _MAX_LABEL_LENGTH) for label in labels]
    with fonts_with(names, path):
        save_figure(_confusion(names, confusion), path)


def _confusion(labels: Sequence[str], confusion: NDArray[np.int64]) -> Figure:
    size = min(2.2 + _CELL_INCHES * len(labels), _MAX_INCHES)
    figure = new_figure((size + 0.8, size))
    axes = figure.subplots()
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(labels)), labels, rotation=90, parse_math=False)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")
    if len(labels) <= _NUMBERED_UP_TO:
        for (row, column), count in np.ndenumerate(confusion):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.7).set_label("share of the class")
    return figure


def plot_words(
    words: Sequence[str],
    occlusion: NDArray[np.float64],
    attention: NDArray[np.float64],
    path: Path,
    title: str,
    most: int = 25,
) -> None:
    """Draw the words that decided, each as two bars: the effect of hiding it, and its attention.

    Of more than `most` words those with the largest effect are shown, in the order of the text. Raises the errors of
    `plot_confusion`.
    """
    check_format(path)
    chosen = np.sort(np.argsort(-np.abs(occlusion), kind="stable")[:most])
    names = [printable(words[index], _MAX_LABEL_LENGTH) for index in chosen]
    with fonts_with([title, *names], path):
        save_figure(_words(names, occlusion[chosen], attention[chosen], printable(title, _MAX_TITLE_LENGTH)), path)


def _words(names: Sequence[str], occlusion: NDArray[np.float64], attention: NDArray[np.float64], title: str) -> Figure:
    figure = new_figure((7.5, 1.2 + 0.24 * len(names)))
    left, right = figure.subplots(1, 2, sharey=True)
    heights = np.arange(len(names))
    left.barh(heights, occlusion, color=[_FOR if value > 0 else _AGAINST for value in occlusion])
    left.axvline(0.0, color="black", linewidth=0.6)
    left.set_xlabel("evidence for the label (nats)")
    right.barh(heights, 100 * attention, color="gray")
    right.set_xlabel("attention (%)")
    left.set_yticks(heights, names, fontsize=8, parse_math=False)
    left.invert_yaxis()
    figure.suptitle(title, parse_math=False)
    return figure
