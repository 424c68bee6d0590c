"""Draw heat maps of attention heads, and the curves of a training run, as PNG or SVG."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap, with_written_rows
from dikkat.explain.pictures import check_format, fonts_with, new_figure, printable, save_figure
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.localization import translated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox


# Draw labelled points on a plane, as PNG or SVG; no label covers another.

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
"""Candidate positions of a label next to its point: offset in points, horizontal and vertical alignment."""


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


# Draw the confusion matrix of a classifier, and the words that decided.

_CELL_INCHES = 0.6
_MAX_INCHES = 30.0
_NUMBERED_UP_TO = 20
"""Largest number of classes for which counts are written into the cells."""
_MAX_CLASS_LABEL_LENGTH, _MAX_TITLE_LENGTH = 40, 90
_FOR, _AGAINST = "#c03a2b", "#3a6ea5"


def plot_confusion(labels: Sequence[str], confusion: NDArray[np.int64], path: Path) -> None:
    """Draw (C, C) counts; rows are the right class, columns the prediction, colours the shares of a row.

    Raises `UsageError` for a suffix that is not .png or .svg, `DiskError` or `CannotCreateError`.
    """
    check_format(path)
    names = [printable(label, _MAX_CLASS_LABEL_LENGTH) for label in labels]
    with fonts_with(names, path):
        size = min(2.2 + _CELL_INCHES * len(names), _MAX_INCHES)
        figure = new_figure((size + 0.8, size))
        axes = figure.subplots()
        shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        axes.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.set_xlabel(translated("taken for"))
        axes.set_ylabel(translated("is"))
        if len(names) <= _NUMBERED_UP_TO:
            for (row, column), count in np.ndenumerate(confusion):
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.7).set_label(translated("share of the class"))
        save_figure(figure, path)


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
    names = [printable(words[index], _MAX_CLASS_LABEL_LENGTH) for index in chosen]
    with fonts_with([title, *names], path):
        figure = new_figure((7.5, 1.2 + 0.24 * len(names)))
        left, right = figure.subplots(1, 2, sharey=True)
        heights, effects = np.arange(len(names)), occlusion[chosen]
        left.barh(heights, effects, color=[_FOR if value > 0 else _AGAINST for value in effects])
        left.axvline(0.0, color="black", linewidth=0.6)
        left.set_xlabel(translated("evidence for the label (nats)"))
        right.barh(heights, 100 * attention[chosen], color="gray")
        right.set_xlabel(translated("attention (%)"))
        left.set_yticks(heights, names, fontsize=8, parse_math=False)
        left.invert_yaxis()
        figure.suptitle(printable(title, _MAX_TITLE_LENGTH), parse_math=False)
        save_figure(figure, path)


def max_pooled(attention_map: AttentionMap, longest: int) -> tuple[AttentionMap, tuple[int, int]]:
    """Return the map with at most `longest` tiles an axis, and the rows and columns of a tile: (1, 1) if all cells fit.

    A tile is labelled with its first tokens. It shows the largest weight, since the mean would hide a single strong
    link.
    """
    rows, columns = (math.ceil(length / longest) or 1 for length in attention_map.weights.shape)
    if rows == columns == 1:
        return attention_map, (1, 1)
    weights = np.maximum.reduceat(attention_map.weights, range(0, attention_map.weights.shape[0], rows), axis=0)
    weights = np.maximum.reduceat(weights, range(0, attention_map.weights.shape[1], columns), axis=1)
    shrunk = replace(
        attention_map,
        weights=weights,
        query_tokens=attention_map.query_tokens[::rows],
        key_tokens=attention_map.key_tokens[::columns],
    )
    return shrunk, (rows, columns)


_Curve = tuple[list[int], list[float]]

_FONT_POINTS = 8.0
_TITLE_POINTS = 11.0
_MAP_CELL_INCHES = 0.24
_MIN_CELL_INCHES = 0.01
_MAX_MAP_INCHES = 40.0  # 6,000 pixels, which every program can still show
_MAX_MAP_LABEL_LENGTH = 24
_MAX_TILES = 160
_ONE = (1, 1)
_TILES_IN_SCALE = 0.995


def plot_heads(
    maps: Sequence[AttentionMap], path: Path, title: str = "", *, inches: tuple[float, float] | None = None
) -> None:
    """Draw each map as a heat map with its tokens on the axes, all on one colour scale, darker being larger.

    The picture is large enough for every label unless its width and height are given in `inches`; of more tokens than
    have room, some are labelled, and of more than can be told apart, a tile shows the largest weight of several. The
    rows of a decoder's cross-attention carry the token that they wrote, not the one that they were fed.
    Raises `UsageError` for a suffix that is not .png or .svg, `DataError` without maps, `DiskError` or
    `CannotCreateError` when `path` cannot be written.
    """
    check_format(path)
    if not maps:
        raise DataError("there is no attention map to draw; choose at least one head")
    pooled, tiles = zip(
        *(max_pooled(with_written_rows(attention_map), _MAX_TILES) for attention_map in maps), strict=True
    )
    labels = {
        _label(token) for attention_map in pooled for token in (*attention_map.query_tokens, *attention_map.key_tokens)
    }
    with fonts_with([title, *labels], path):
        save_figure(_heads(pooled, max(tiles), title, inches), path)


def _heads(
    pooled: Sequence[AttentionMap], tile: tuple[int, int], title: str, inches: tuple[float, float] | None
) -> Figure:
    grid = _Grid(pooled, inches)
    figure = new_figure(grid.size)
    cells = figure.subplots(grid.rows, grid.columns, squeeze=False).flatten()
    largest = _largest(pooled, tile)
    images = [_draw_map(axes, attention_map, largest, grid) for axes, attention_map in zip(cells, pooled, strict=False)]
    if grid.shares_tokens:
        for index, axes in enumerate(cells[: len(pooled)]):
            axes.tick_params(labelleft=index % grid.columns == 0, labelbottom=index + grid.columns >= len(pooled))
    for axes in cells[len(pooled) :]:
        axes.set_axis_off()
    figure.supxlabel(translated("key: attended to"), fontsize=_FONT_POINTS + 1)
    is_cross = all(attention_map.kind == "cross" for attention_map in pooled)
    queries = translated("query: attending, to write this" if is_cross else "query: attending")
    figure.supylabel(queries, fontsize=_FONT_POINTS + 1)
    if title:
        _set_title(figure, title, inches[1] if inches else _MAX_MAP_INCHES)
    _draw_scale(figure, images[0], list(cells), tile)
    return figure


def plot_training(metrics: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Draw the losses and, below, the validation scores of a run over its updates.

    Rows of `metrics` have `step` and any of `train_loss`, `valid_loss` (nats a prediction), `chrf`, `bleu`,
    `accuracy`, `macro_f1` (0 to 100). Raises `UsageError` for an unknown suffix, `DataError` when there is nothing to
    draw.
    """
    check_format(path)
    losses = _series(metrics, {"train_loss": translated("training"), "valid_loss": translated("validation")})
    scores = _series(
        metrics, {"chrf": "chrF", "bleu": "BLEU", "accuracy": translated("accuracy"), "macro_f1": "macro F1"}
    )
    panels = [
        (curves, label)
        for curves, label in ((losses, msg("loss (nats per target token)")), (scores, msg("validation score (0–100)")))
        if curves
    ]
    if not panels:
        raise DataError("there is no training curve to draw: no validation has been recorded yet")
    with fonts_with([title], path):
        figure = new_figure((7.0, 0.6 + 2.8 * len(panels)))
        stacked = figure.subplots(len(panels), 1, squeeze=False, sharex=True).flatten()
        for axes, (curves, label) in zip(stacked, panels, strict=True):
            _draw_curves(axes, curves, translated(label))
        if scores:
            name, (steps, values) = next(iter(scores.items()))
            best = max(values)
            marked = translated("best {name} {best:.1f} at update {step:,}", name, best, steps[values.index(best)])
            stacked[-1].set_title(marked, fontsize="small", loc="right")
        stacked[-1].set_xlabel(translated("update (optimizer step)"))
        stacked[-1].locator_params(axis="x", integer=True)
        figure.align_ylabels()
        if title:
            _set_title(figure, title)
        save_figure(figure, path)


def _largest(pooled: Sequence[AttentionMap], tile: tuple[int, int]) -> float:
    """The darkest weight. In a map of thousands of tokens a single large weight would leave all others white."""
    weights = np.concatenate([attention_map.weights.ravel() for attention_map in pooled])
    if not weights.size:
        return 1.0
    return float(np.quantile(weights, _TILES_IN_SCALE) if tile > _ONE else weights.max()) or 1.0


class _Grid:
    """Rows, columns and size in inches of a picture of `maps`, large enough for every label."""

    def __init__(self, maps: Sequence[AttentionMap], inches: tuple[float, float] | None) -> None:
        queries = max(len(attention_map.query_tokens) for attention_map in maps)
        keys = max(len(attention_map.key_tokens) for attention_map in maps)
        self.shares_tokens = (
            len({(attention_map.query_tokens, attention_map.key_tokens) for attention_map in maps}) == 1
        )
        self.several_layers = (
            len({(attention_map.stack, attention_map.layer, attention_map.kind) for attention_map in maps}) > 1
        )
        self.columns = min(4, len(maps)) if keys <= 16 else min(2, len(maps))
        self.rows = math.ceil(len(maps) / self.columns)
        left = _label_inches({token for attention_map in maps for token in attention_map.query_tokens})
        below = _label_inches({token for attention_map in maps for token in attention_map.key_tokens})
        label_columns, label_rows = (1, 1) if self.shares_tokens else (self.columns, self.rows)
        width = 1.3 + left * label_columns + 0.2 * self.columns
        height = 0.9 + below * label_rows + 0.4 * self.rows
        across, down = self.columns * max(keys, 1), self.rows * max(queries, 1)
        most = inches or (_MAX_MAP_INCHES, _MAX_MAP_INCHES)
        # A map must be as wide as its title, and its cells are square.
        cell = max(_MAP_CELL_INCHES, min((1.6 if self.several_layers else 1.1) / max(keys, 1), 3.0 / max(queries, 1)))
        cell = max(min(cell, (most[0] - width) / across, (most[1] - height) / down), _MIN_CELL_INCHES)
        self.size = inches or (
            min(max(width + cell * across, 4.0), _MAX_MAP_INCHES),
            min(height + cell * down, _MAX_MAP_INCHES),
        )
        # Every n-th label where a cell is lower than a line.
        self.label_every = math.ceil(_FONT_POINTS * 1.3 / 72 / cell)


def _draw_map(axes: Axes, attention_map: AttentionMap, largest: float, grid: _Grid) -> AxesImage:
    image = axes.imshow(attention_map.weights, cmap="Reds", vmin=0.0, vmax=largest, interpolation="nearest")
    for axis, tokens in ((axes.xaxis, attention_map.key_tokens), (axes.yaxis, attention_map.query_tokens)):
        ticks = range(0, len(tokens), grid.label_every)
        axis.set_ticks(ticks, [_label(tokens[tick]) for tick in ticks], fontsize=_FONT_POINTS, parse_math=False)
    axes.tick_params(length=2)
    axes.set_title(_map_title(attention_map, grid.several_layers), fontsize=_FONT_POINTS + 1)
    for label in axes.get_xticklabels():
        label.set(rotation=90, rotation_mode="default", ha="center", va="top")
    return image


def _draw_scale(figure: Figure, image: AxesImage, cells: list[Axes], tile: tuple[int, int]) -> None:
    bar = figure.colorbar(image, ax=cells, shrink=0.6, pad=0.02, extend="neither" if tile == _ONE else "max")
    label = msg("attention weight") if tile == _ONE else msg("largest attention weight of {rows} × {columns}", *tile)
    bar.set_label(translated(label), fontsize=_FONT_POINTS)
    bar.ax.tick_params(labelsize=_FONT_POINTS - 1)


def _map_title(attention_map: AttentionMap, several_layers: bool) -> str:
    shown = attention_map
    head = translated("Mean of heads") if shown.head is None else translated("Head {number}", shown.head + 1)
    return f"{translated(shown.stack)} {shown.layer + 1}, {translated(shown.kind)}\n{head}" if several_layers else head


def _label(token: str) -> str:
    return printable(token if token.strip(" ") else "␣" * len(token), _MAX_MAP_LABEL_LENGTH)


def _label_inches(tokens: Iterable[str]) -> float:
    from matplotlib.textpath import TextPath

    # Only the longest few are measured, which is slow. A dollar sign would start a formula.
    longest = sorted((_label(token).replace("$", "S") for token in tokens), key=len)[-5:]
    outlines = [TextPath((0, 0), label, size=_FONT_POINTS) for label in longest if label]
    return max((outline.get_extents().width / 72 for outline in outlines), default=0.0)


def _series(metrics: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, _Curve]:
    curves: dict[str, _Curve] = {}
    for key, name in names.items():
        points = [(_step(row, number), row[key]) for number, row in enumerate(metrics, 1) if row.get(key) is not None]
        if points:
            curves[name] = ([step for step, _ in points], [float(value) for _, value in points])
    return curves


def _step(row: Mapping[str, Any], number: int) -> int:
    if "step" not in row:
        raise DataError("row {number} of the metrics has no step; remove the row", number)
    return int(row["step"])


def _draw_curves(axes: Axes, curves: Mapping[str, _Curve], label: str) -> None:
    for name, (steps, values) in curves.items():
        axes.plot(steps, values, marker="o", markersize=3.5, linewidth=1.5, label=name)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _set_title(figure: Figure, title: str, highest: float = _MAX_MAP_INCHES) -> None:
    # in ems: a Chinese, Japanese or Korean character, and a mean one of DejaVu Sans
    widths = [1.0 if unicodedata.east_asian_width(character) in "WF" else 0.62 for character in title]
    per_line = int(figure.get_figwidth() * 72 / (sum(widths) / len(widths) * _TITLE_POINTS))
    lines = textwrap.wrap(printable(title, 4 * per_line), per_line)
    figure.set_figheight(min(figure.get_figheight() + (len(lines) - 1) * 1.4 * _TITLE_POINTS / 72, highest))
    figure.suptitle("\n".join(lines), fontsize=_TITLE_POINTS, parse_math=False)
