"""Explain a comparison with headings, sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.pictures import check_format, new_figure, save_figure
from dikkat.lessons.comparison.layers import (
    COUNTED,
    KINDS,
    ComparisonSettings,
    Cost,
    Kind,
    Reach,
    formulas,
    layers_to_join,
    receptive_field,
)
from dikkat.lessons.comparison.measurement import (
    BATCH,
    CHANCE,
    HOW_MEMORY,
    HOW_TIMED,
    MAX_MATRIX_LENGTH,
    TESTED,
    VOCABULARY,
    WHOLE,
    WINDOW,
    Copied,
    Exponent,
    Forms,
    Sweep,
)
from dikkat_runtime.errors import joined, msg, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The result of a comparison, also as JSON.


@dataclass(frozen=True, slots=True)
class Machine:
    """Hold the machine that was measured on."""

    processor: str
    threads: int
    torch: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold what was counted, measured, differentiated and trained."""

    settings: ComparisonSettings
    machine: Machine
    costs: tuple[Cost, ...]
    """Cost of every kind at every length."""
    over_length: Sweep
    over_width: Sweep
    forms: Forms
    reaches: tuple[Reach, ...]
    """Reach of every kind through one layer, then through the stack."""
    joined: Reach
    """Reach of the stack of convolutions over as many inputs as its receptive field holds."""
    missed: Reach
    """Reach of the same stack over one input more."""
    copied: tuple[Copied, ...]
    seconds: float


def numbers(comparison: Comparison) -> dict[str, Any]:
    """Return every number, and how each was found; None is what could not be fitted or measured."""
    content = asdict(comparison)
    content["formulas"] = {kind: asdict(written) for kind, written in formulas(comparison.settings.cell).items()}
    content["how"] = {"time": HOW_TIMED, "memory": HOW_MEMORY, "chance": CHANCE}
    every = [*content["reaches"], content["joined"], content["missed"]]
    for written, reach in zip(every, [*comparison.reaches, comparison.joined, comparison.missed], strict=True):
        written.update(length=reach.length, earliest=reach.earliest, reached=reach.reached)
    return content


_CELL_NAMES = {"gru": msg("gated recurrent unit"), "rnn": msg("Elman's cell")}


def render_comparison(comparison: Comparison) -> Explanation:
    """Return the explanation of all parts, in the order of the questions that they answer."""
    settings = comparison.settings
    title = msg("Convolution, recurrence and self-attention")
    introduction = (
        msg(
            "One layer each, of one width: a causal convolution of kernel k = {kernel}, a recurrence ({cell_names}), "
            "and self-attention with one head."
        ).fill(settings.kernel, _CELL_NAMES[settings.cell]),
    )
    steps = (
        _formulas(comparison),
        _counted(comparison),
        _measured(comparison, comparison.over_length),
        _measured(comparison, comparison.over_width),
        _forms(comparison),
        _reach(comparison),
        _copied(comparison),
    )
    machine = comparison.machine
    ending = (
        msg("Measured on {processor}, {threads}, PyTorch {torch}, seed {seed}, in {seconds:.0f} s.").fill(
            machine.processor, plural(machine.threads, "thread"), machine.torch, settings.seed, comparison.seconds
        ),
    )
    return Explanation(title, introduction, None, steps, ending)


def _formulas(comparison: Comparison) -> Step:
    headings = ("layer", "operations", msg("with projections"), msg("sequential steps"), msg("longest path"), "O(…)")
    columns = tuple(Column(msg(heading)) for heading in headings)
    written = formulas(comparison.settings.cell)
    rows = tuple(
        (
            msg(kind),
            formula.without_projections,
            formula.with_projections,
            formula.sequential_steps,
            formula.path_length,
            formula.order,
        )
        for kind, formula in written.items()
    )
    return Step(msg("1. What one layer costs, on paper"), COUNTED, Table(columns, rows))


def _counted(comparison: Comparison) -> Step:
    width, kernel = comparison.settings.width, comparison.settings.kernel
    columns = _columns(
        "n", "convolution", "recurrence", "+ projections", "attention", "+ projections", msg("longest path")
    )
    rows = []
    for length in comparison.settings.lengths:
        conv, recurrent, attention = (point for point in comparison.costs if point.length == length)
        counts = (
            conv.with_projections,
            recurrent.without_projections,
            recurrent.with_projections,
            attention.without_projections,
            attention.with_projections,
        )
        paths = f"{conv.path_length:,} / {recurrent.path_length:,} / {attention.path_length}"
        rows.append((f"{length:,}", *(_significant(count / 1e6) for count in counts), paths))
    after = (
        msg(
            "The usual O(n² d) leaves out attention's four projections, 4 n d², which cost more while n < 2 d = "
            "{width:,}."
        ).fill(2 * width),
    )
    return Step(
        msg("2. The same in numbers: d = {width:,}, k = {kernel}", width, kernel),
        (msg("Millions of operations. Longest path: convolutions / recurrence / attention."),),
        Table(columns, tuple(rows)),
        after,
    )


def _measured(comparison: Comparison, sweep: Sweep) -> Step:
    by_length = sweep.over == "length"
    symbol, other = ("n", "d") if by_length else ("d", "n")
    columns = _columns(symbol, *(f"{_short(kind)} {unit}" for unit in ("ms", "MiB") for kind in KINDS))
    rows = []
    for index, size in enumerate(sweep.sizes):
        points = [sweep.of(kind)[index] for kind in KINDS]
        times = (_significant(point.measured.seconds * 1e3) for point in points)
        memory = (_significant(point.measured.peak_bytes / 2**20) for point in points)
        rows.append((f"{size:,}", *times, *memory))
    fitted = [*(growth.seconds for growth in sweep.growth), *(growth.bytes for growth in sweep.growth)]
    total = (msg("exponent"), *map(_exponent, fitted))
    text = [msg("ms: {method}.", HOW_TIMED), msg("MiB: {method}.", HOW_MEMORY)] if by_length else []
    counted = ", ".join(f"{_short(growth.kind)} {symbol}^{_exponent(growth.operations)}" for growth in sweep.growth)
    over = sweep.growth[0].operations
    after = (
        [
            msg(
                "Exponent p of {symbol}^p, fitted over {symbol} = {first:,} … {last:,}. The operations (with "
                "projections) counted over the same range grow as {exponents}."
            ).fill(symbol, over.first, over.last, counted)
        ]
        if over
        else []
    )
    number, what, held = (
        (3, msg("length"), comparison.settings.width)
        if by_length
        else (4, msg("width"), comparison.settings.lengths[0])
    )
    heading = msg("{number}. Measured over the {axis}: {symbol} = {value:,}", number, what, other, held)
    return Step(heading, tuple(text), Table(columns, tuple(rows), total), tuple(after))


def _forms(comparison: Comparison) -> Step:
    forms = comparison.forms
    longest = forms.points[-1].length
    columns = _columns("form", "ms", "MiB", msg("time exponent"), msg("memory exponent"), "error")
    rows = []
    for growth in forms.growth:
        points = forms.of(growth.form)
        last = points[-1] if points and points[-1].length == longest else None
        errors = [point.error for point in points if point.error is not None]
        rows.append(
            (
                msg(growth.form),
                _significant(last.measured.seconds * 1e3) if last else "–",
                _significant(last.measured.peak_bytes / 2**20) if last else "–",
                _exponent(growth.seconds),
                _exponent(growth.bytes),
                _size(errors[-1]) if errors else "–",
            )
        )
    text = (
        msg(
            "One head of width {width:,} at n = {longest:,}, standard normal inputs. Neighbours matter no more than "
            "others there: the worst case of a window ({window} positions on either side). Exponents in n are fitted "
            "as above."
        ).fill(forms.width, longest, WINDOW),
    )
    after = (
        msg("Error: root mean square of the difference from the whole matrix, relative to its output")
        + (
            msg(", at the longest n up to {max_matrix_length:,}.", MAX_MATRIX_LENGTH)
            if longest > MAX_MATRIX_LENGTH
            else "."
        ),
        msg("Fused and chunked are exact; linear attention is exact for another kernel than softmax."),
    )
    return Step(msg("5. Attention for long inputs"), text, Table(columns, tuple(rows)), after)


def _reach(comparison: Comparison) -> Step:
    kernel, layers = comparison.settings.kernel, comparison.settings.layers
    columns = _columns("layer", "layers", "inputs", "predicted", "reached", "from", "|dy/dx first|", "|dy/dx last|")
    rows = []
    for reach in comparison.reaches:
        field = receptive_field(reach.layers, kernel) if reach.kind == "convolution" else reach.length
        rows.append(
            (
                msg(reach.kind),
                f"{reach.layers}",
                f"{reach.length}",
                f"{min(field, reach.length)}",
                f"{reach.reached}",
                f"x{reach.earliest}",
                _size(reach.sizes[0]),
                _size(reach.sizes[-1]),
            )
        )
    joined, missed = comparison.joined, comparison.missed
    inputs = comparison.reaches[0].length
    first, lost = _size(joined.sizes[0]), _size(missed.sizes[0])
    after = (
        msg(
            "L convolutions see 1 + L (k−1) inputs. For k = {kernel}, L = {layers} they join x1 and x{length} "
            "(size of the derivative {first}), but not x1 and x{missed} ({lost}); {inputs} inputs take {needed}."
        ).fill(
            kernel,
            layers,
            joined.length,
            first,
            missed.length,
            lost,
            inputs,
            plural(layers_to_join(inputs, kernel), "layer"),
        ),
    )
    text = (msg("From true gradients in float64, untrained layers: 0 is the absence of a path."),)
    return Step(msg("6. Which inputs reach the last output"), text, Table(columns, tuple(rows)), after)


def _copied(comparison: Comparison) -> Step:
    settings = comparison.settings
    columns = _columns("n", *KINDS)
    rows = []
    for length in settings.copy_lengths:
        accuracies = (f"{point.accuracy:.1%}" for point in comparison.copied if point.length == length)
        rows.append((f"{length:,}", *accuracies))
    parameters = {point.kind: point.parameters for point in comparison.copied}
    text = (
        msg(
            "Each layer is trained anew at each n, on {updates:,} batches of {batch} random sequences of {vocabulary} "
            "tokens, d = {width:,}; then tested on {tested:,} fresh ones. Chance is {chance:.1%}."
        ).fill(settings.updates, BATCH, VOCABULARY, settings.width, TESTED, CHANCE),
    )
    seen = msg("At n > {kernel} the first token is outside the convolution's field.", settings.kernel)
    paths = msg("The recurrence must keep it for n − 1 steps; attention looks at it in one.")
    held = joined(", ", (msg("{kind} {count:,}", msg(kind), parameters[kind]) for kind in KINDS))
    return Step(
        msg("7. A learned task: name the first of n tokens at the last"),
        text,
        Table(columns, tuple(rows)),
        (joined(" ", (seen, paths)), msg("Parameters: {counts}.", held)),
    )


def _columns(first: str, *others: str) -> tuple[Column, ...]:
    return (Column(msg(first)), *(Column(msg(heading), numeric=True) for heading in others))


def _short(kind: Kind) -> str:
    return {"convolution": "conv.", "recurrence": "rec.", "self-attention": "att."}[kind]


def _exponent(fitted: Exponent | None) -> str:
    return "–" if fitted is None else f"{fitted.value:.2f}"


def _size(number: float) -> str:
    return "0" if number == 0 else f"{number:.3f}" if number >= 0.01 else f"{number:.1e}"


def _significant(number: float) -> str:
    """Three digits that matter, with thousands separated."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


# Draw the comparison as one picture of six panels.


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
