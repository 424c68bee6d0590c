"""Draw the comparison as one picture of six panels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from dikkat.explain.pictures import check_format, new_figure, save_figure
from dikkat.lessons.comparison.copy_task import CHANCE
from dikkat.lessons.comparison.explanation import Comparison
from dikkat.lessons.comparison.measurement import WHOLE, Exponent, Sweep
from dikkat.lessons.comparison.settings import KINDS, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# told apart by every kind of colour vision (Okabe and Ito 2008), and by marker in grey
_COLOURS: Final[dict[Kind, str]] = {"convolution": "#E69F00", "recurrence": "#009E73", "self-attention": "#0072B2"}
_MARKERS: Final[dict[Kind, str]] = {"convolution": "s", "recurrence": "^", "self-attention": "o"}
_WHOLE = "#CC79A7"
_INK, _FRAME = "#333333", "#888888"
_SMALL, _LABEL = 8.5, 9.5
_LegendPosition = Literal["upper left", "lower left"] | tuple[float, float]


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """Write the picture as PNG or SVG, by the suffix of `path`.

    Raises `UsageError` for another suffix, `DiskError` or `CannotCreateError` when `path` cannot be written.
    """
    check_format(path)
    figure = new_figure((13.5, 8.4))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
    panels = figure.subplots(2, 3).flatten()
    settings = comparison.settings
    _draw_operations(panels[0], comparison)
    _draw_sweep(panels[1], comparison.over_length)
    _draw_memory(panels[2], comparison)
    _draw_sweep(panels[3], comparison.over_width)
    _draw_reach(panels[4], comparison)
    _draw_copied(panels[5], comparison)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["bottom", "left"]].set_color(_FRAME)
        axes.tick_params(which="both", labelsize=_SMALL, color=_FRAME, labelcolor=_INK)
        axes.grid(which="major", alpha=0.25, linewidth=0.6)
    figure.suptitle(
        f"One layer each: convolution (k = {settings.kernel}), recurrence ({settings.cell.upper()}), self-attention",
        fontsize=14,
    )
    save_figure(figure, path)


def _draw_operations(axes: Axes, comparison: Comparison) -> None:
    lengths = comparison.settings.lengths
    for kind in KINDS:
        of_kind = [cost for cost in comparison.costs if cost.kind == kind]
        _line(axes, kind, lengths, [cost.with_projections for cost in of_kind], kind)
    bare = [cost.without_projections for cost in comparison.costs if cost.kind == "self-attention"]
    axes.plot(lengths, bare, ":", color=_COLOURS["self-attention"], linewidth=1.5, label="without its projections")
    _sizes(axes, lengths, "n", log_values=True)
    _describe(
        axes, f"Operations over length, d = {comparison.settings.width:,}", "multiply-adds, counted", "upper left"
    )


def _draw_sweep(axes: Axes, sweep: Sweep) -> None:
    symbol, swept, held = ("n", "length", "d") if sweep.over == "length" else ("d", "width", "n")
    for growth in sweep.growth:
        milliseconds = [point.measured.seconds * 1e3 for point in sweep.of(growth.kind)]
        _line(axes, growth.kind, sweep.sizes, milliseconds, _with_exponent(growth.kind, symbol, growth.seconds))
    _sizes(axes, sweep.sizes, symbol, log_values=True)
    _describe(axes, f"Time over {swept}, {held} = {sweep.fixed:,}", "milliseconds, measured", "upper left")


def _draw_memory(axes: Axes, comparison: Comparison) -> None:
    sweep = comparison.over_length
    whole = comparison.forms.of(WHOLE)
    if whole:
        exponent = next(growth.bytes for growth in comparison.forms.growth if growth.form == WHOLE)
        axes.plot(
            [point.length for point in whole],
            [point.measured.peak_bytes / 2**20 for point in whole],
            "--D",
            color=_WHOLE,
            markersize=4,
            label=_with_exponent("attention, whole matrix", "n", exponent),
        )
    for growth in sweep.growth:
        mebibytes = [point.measured.peak_bytes / 2**20 for point in sweep.of(growth.kind)]
        _line(axes, growth.kind, sweep.sizes, mebibytes, _with_exponent(growth.kind, "n", growth.bytes))
    _sizes(axes, sweep.sizes, "n", log_values=True)
    _describe(axes, f"Memory over length, d = {sweep.fixed:,}", "MiB at the peak, measured", "upper left")


def _draw_reach(axes: Axes, comparison: Comparison) -> None:
    for reach in comparison.reaches:
        if reach.layers == 1:
            back = range(reach.length - 1, -1, -1)
            reached = [(distance, size) for distance, size in zip(back, reach.sizes, strict=True) if size > 0.0]
            x, y = zip(*reached, strict=True)
            label = reach.kind if reach.reached == reach.length else f"{reach.kind}: exactly 0 further back"
            axes.plot(x, y, color=_COLOURS[reach.kind], marker=_MARKERS[reach.kind], markersize=4, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("steps back from the last position", fontsize=_LABEL)
    _describe(axes, "Gradient of the last output, one layer", "size of the derivative by an input", "lower left")


def _draw_copied(axes: Axes, comparison: Comparison) -> None:
    lengths = comparison.settings.copy_lengths
    for kind in KINDS:
        accuracies = [100 * copied.accuracy for copied in comparison.copied if copied.kind == kind]
        _line(axes, kind, lengths, accuracies, kind)
    axes.axhline(100 * CHANCE, color=_INK, linewidth=1, linestyle=(0, (4, 3)), label="chance")
    axes.set_ylim(0, 105)
    _sizes(axes, lengths, "n", log_values=False)
    _describe(axes, "Learned: name the first of n tokens", "accuracy, %", (0.2, 0.4))


def _line(axes: Axes, kind: Kind, x: Sequence[int], y: Sequence[float], label: str) -> None:
    axes.plot(x, y, color=_COLOURS[kind], marker=_MARKERS[kind], markersize=5, linewidth=1.8, label=label)


def _sizes(axes: Axes, sizes: Sequence[int], symbol: str, *, log_values: bool) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.minorticks_off()
    if log_values:
        axes.set_yscale("log")
    axes.set_xlabel("n, positions" if symbol == "n" else "d, width", fontsize=_LABEL)


def _describe(axes: Axes, title: str, values: str, legend: _LegendPosition) -> None:
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_ylabel(values, fontsize=_LABEL)
    axes.legend(frameon=False, fontsize=_SMALL, loc=legend)


def _with_exponent(name: str, symbol: str, fitted: Exponent | None) -> str:
    return name if fitted is None else f"{name}: ${symbol}^{{{fitted.value:.2f}}}$"
