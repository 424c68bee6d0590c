"""Draw heat maps of attention heads, and the curves of a training run, as PNG or SVG."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.fonts import fonts_with
from dikkat.explain.pictures import check_format, new_figure, printable, save_figure
from dikkat.explain.sentence_maps import with_written_rows
from dikkat_runtime.errors import DataError


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


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Colours = Literal["Reds", "Blues"]
_Curve = tuple[list[int], list[float]]

_FONT_POINTS = 8.0
_TITLE_POINTS = 11.0
_CELL_INCHES = 0.24
_MIN_CELL_INCHES = 0.01
_MAX_INCHES = 40.0  # 6,000 pixels, which every program can still show
_MAX_LABEL_LENGTH = 24
_MAX_TILES = 160
_ONE = (1, 1)
_TILES_IN_SCALE = 0.995


def plot_heads(
    maps: Sequence[AttentionMap],
    path: Path,
    title: str = "",
    *,
    colours: Colours = "Reds",
    inches: tuple[float, float] | None = None,
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
        save_figure(_heads(pooled, max(tiles), title, colours, inches), path)


def _heads(
    pooled: Sequence[AttentionMap],
    tile: tuple[int, int],
    title: str,
    colours: Colours,
    inches: tuple[float, float] | None,
) -> Figure:
    grid = _Grid(pooled, inches)
    figure = new_figure(grid.size)
    cells = figure.subplots(grid.rows, grid.columns, squeeze=False).flatten()
    largest = _largest(pooled, tile)
    images = [
        _draw_map(axes, attention_map, largest, grid, colours)
        for axes, attention_map in zip(cells, pooled, strict=False)
    ]
    if grid.shares_tokens:
        for index, axes in enumerate(cells[: len(pooled)]):
            axes.tick_params(labelleft=index % grid.columns == 0, labelbottom=index + grid.columns >= len(pooled))
    for axes in cells[len(pooled) :]:
        axes.set_axis_off()
    figure.supxlabel("key: attended to", fontsize=_FONT_POINTS + 1)
    is_cross = all(attention_map.kind == "cross" for attention_map in pooled)
    figure.supylabel("query: attending, to write this" if is_cross else "query: attending", fontsize=_FONT_POINTS + 1)
    if title:
        _set_title(figure, title, inches[1] if inches else _MAX_INCHES)
    _draw_scale(figure, images[0], list(cells), tile)
    return figure


def plot_training(metrics: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Draw the losses and, below, the validation scores of a run over its updates.

    Rows of `metrics` have `step` and any of `train_loss`, `valid_loss` (nats a prediction), `chrf`, `bleu`,
    `accuracy`, `macro_f1` (0 to 100). Raises `UsageError` for an unknown suffix, `DataError` when there is nothing to
    draw.
    """
    check_format(path)
    losses = _series(metrics, {"train_loss": "training", "valid_loss": "validation"})
    scores = _series(metrics, {"chrf": "chrF", "bleu": "BLEU", "accuracy": "accuracy", "macro_f1": "macro F1"})
    panels = [
        (curves, label)
        for curves, label in ((losses, "loss (nats per target token)"), (scores, "validation score (0–100)"))
        if curves
    ]
    if not panels:
        raise DataError("there is no training curve to draw: no validation has been recorded yet")
    with fonts_with([title], path):
        save_figure(_training(panels, scores, title), path)


def _training(panels: Sequence[tuple[Mapping[str, _Curve], str]], scores: Mapping[str, _Curve], title: str) -> Figure:
    figure = new_figure((7.0, 0.6 + 2.8 * len(panels)))
    stacked = figure.subplots(len(panels), 1, squeeze=False, sharex=True).flatten()
    for axes, (curves, label) in zip(stacked, panels, strict=True):
        _draw_curves(axes, curves, label)
    if scores:
        _mark_best(stacked[-1], *next(iter(scores.values())), name=next(iter(scores)))
    stacked[-1].set_xlabel("update (optimizer step)")
    stacked[-1].locator_params(axis="x", integer=True)
    figure.align_ylabels()
    if title:
        _set_title(figure, title)
    return figure


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
        most = inches or (_MAX_INCHES, _MAX_INCHES)
        # A map must be as wide as its title, and its cells are square.
        cell = max(_CELL_INCHES, min((1.6 if self.several_layers else 1.1) / max(keys, 1), 3.0 / max(queries, 1)))
        cell = max(min(cell, (most[0] - width) / across, (most[1] - height) / down), _MIN_CELL_INCHES)
        self.size = inches or (
            min(max(width + cell * across, 4.0), _MAX_INCHES),
            min(height + cell * down, _MAX_INCHES),
        )
        # Every n-th label where a cell is lower than a line.
        self.label_every = math.ceil(_FONT_POINTS * 1.3 / 72 / cell)


def _draw_map(axes: Axes, attention_map: AttentionMap, largest: float, grid: _Grid, colours: Colours) -> AxesImage:
    image = axes.imshow(attention_map.weights, cmap=colours, vmin=0.0, vmax=largest, interpolation="nearest")
    for axis, tokens in ((axes.xaxis, attention_map.key_tokens), (axes.yaxis, attention_map.query_tokens)):
        ticks = range(0, len(tokens), grid.label_every)
        labels = [_label(tokens[tick]) for tick in ticks]
        axis.set_ticks(ticks, labels, fontsize=_FONT_POINTS, parse_math=False)
    axes.tick_params(length=2)
    axes.set_title(_map_title(attention_map, grid.several_layers), fontsize=_FONT_POINTS + 1)
    for label in axes.get_xticklabels():
        label.set(rotation=90, rotation_mode="default", ha="center", va="top")
    return image


def _draw_scale(figure: Figure, image: AxesImage, cells: list[Axes], tile: tuple[int, int]) -> None:
    bar = figure.colorbar(image, ax=cells, shrink=0.6, pad=0.02, extend="neither" if tile == _ONE else "max")
    label = "attention weight" if tile == _ONE else f"largest attention weight of {tile[0]} × {tile[1]}"
    bar.set_label(label, fontsize=_FONT_POINTS)
    bar.ax.tick_params(labelsize=_FONT_POINTS - 1)


def _map_title(attention_map: AttentionMap, several_layers: bool) -> str:
    head = "Mean of heads" if attention_map.head is None else f"Head {attention_map.head + 1}"
    return f"{attention_map.stack} {attention_map.layer + 1}, {attention_map.kind}\n{head}" if several_layers else head


def _label(token: str) -> str:
    return printable(token if token.strip(" ") else "␣" * len(token), _MAX_LABEL_LENGTH)


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
        raise DataError("row {number} of the metrics has no step; remove the row").fill(number)
    return int(row["step"])


def _draw_curves(axes: Axes, curves: Mapping[str, _Curve], label: str) -> None:
    for name, (steps, values) in curves.items():
        axes.plot(steps, values, marker="o", markersize=3.5, linewidth=1.5, label=name)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _mark_best(axes: Axes, steps: list[int], values: list[float], name: str) -> None:
    best = max(values)
    axes.set_title(f"best {name} {best:.1f} at update {steps[values.index(best)]:,}", fontsize="small", loc="right")


def _set_title(figure: Figure, title: str, highest: float = _MAX_INCHES) -> None:
    # in ems: a Chinese, Japanese or Korean character, and a mean one of DejaVu Sans
    widths = [1.0 if unicodedata.east_asian_width(character) in "WF" else 0.62 for character in title]
    per_line = int(figure.get_figwidth() * 72 / (sum(widths) / len(widths) * _TITLE_POINTS))
    lines = textwrap.wrap(printable(title, 4 * per_line), per_line)
    figure.set_figheight(min(figure.get_figheight() + (len(lines) - 1) * 1.4 * _TITLE_POINTS / 72, highest))
    figure.suptitle("\n".join(lines), fontsize=_TITLE_POINTS, parse_math=False)
