"""Draw labelled points on a plane, as PNG or SVG; no label covers another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.fonts import fonts_with
from dikkat.explain.pictures import check_format, new_figure, printable, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_INCHES = (9.0, 6.5)
_LABEL_POINTS = 8.0
_MAX_LABEL_LENGTH = 60
_MAX_LABELS = 400
"""Largest number of labels; more would not fit and take long to arrange."""
_LABEL_POSITIONS = (
    ((5, 0), "left", "center"),
    ((-5, 0), "right", "center"),
    ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"),
    ((4, 4), "left", "bottom"),
    ((4, -4), "left", "top"),
    ((-4, 4), "right", "bottom"),
    ((-4, -4), "right", "top"),
)
"""Candidate positions of a label beside its point: offset in points, horizontal and vertical alignment."""


def plot_points(
    points: NDArray[np.floating[Any]], labels: Sequence[str], path: Path, title: str = "", caption: str = ""
) -> int:
    """Draw the points (N, 2) with their labels, and return how many labels fit; the other points stay bare.

    Raises `UsageError` for a suffix that is not .png or .svg, `DiskError` or `CannotCreateError` when `path` cannot be
    written.
    """
    check_format(path)
    with fonts_with([title, caption, *labels[:_MAX_LABELS]], path):
        figure = new_figure(_INCHES)
        axes = figure.subplots()
        axes.scatter(points[:, 0], points[:, 1], s=14, color="#b03a2e", linewidths=0)
        axes.margins(0.12)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel(caption, fontsize=_LABEL_POINTS + 1)
        if title:
            axes.set_title(printable(title, _MAX_LABEL_LENGTH), fontsize=11, parse_math=False)
        figure.draw_without_rendering()
        shown = _draw_labels(axes, points, labels)
        # what was placed is measured for this layout: it must not move again
        figure.set_layout_engine("none")
        save_figure(figure, path)
    return shown


def _draw_labels(axes: Axes, points: NDArray[np.floating[Any]], labels: Sequence[str]) -> int:
    """Each label takes the first place that is free of labels and points and inside the frame, or none."""
    scale = axes.figure.dpi / 72
    spots = axes.transData.transform(points)
    taken = np.concatenate([spots - 2 * scale, spots + 2 * scale], axis=1)
    shown = 0
    for (x, y), label in list(zip(points, labels, strict=True))[:_MAX_LABELS]:
        text = axes.annotate(
            printable(label, _MAX_LABEL_LENGTH), (x, y), xytext=(0, 0), textcoords="offset points",
            fontsize=_LABEL_POINTS, parse_math=False, annotation_clip=False,
        )  # fmt: skip
        box = _first_free(text, axes, taken)
        if box is None:
            text.remove()
            continue
        taken = np.vstack([taken, box])
        shown += 1
    return shown


def _first_free(text: Annotation, axes: Axes, taken: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    for offset, horizontal, vertical in _LABEL_POSITIONS:
        text.set(position=offset, ha=horizontal, va=vertical)
        extent: Bbox = text.get_window_extent()
        box = np.array([extent.x0, extent.y0, extent.x1, extent.y1])
        frame = axes.bbox
        inside = frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1
        is_disjoint = (box[0] > taken[:, 2]) | (box[2] < taken[:, 0]) | (box[1] > taken[:, 3]) | (box[3] < taken[:, 1])
        if inside and is_disjoint.all():
            return box
    return None
