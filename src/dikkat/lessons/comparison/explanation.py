"""Explain a comparison with headings, sentences and tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.lessons.comparison.copy_task import BATCH, CHANCE, TESTED, VOCABULARY, Copied
from dikkat.lessons.comparison.layers import COUNTED, Cost, Reach, formulas, layers_to_join, receptive_field
from dikkat.lessons.comparison.measurement import (
    HOW_MEMORY,
    HOW_TIMED,
    MAX_MATRIX_LENGTH,
    WINDOW,
    Exponent,
    Forms,
    Sweep,
)
from dikkat.lessons.comparison.settings import KINDS, ComparisonSettings, Kind

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


def as_json(comparison: Comparison) -> str:
    """Return one JSON object; exponents that could not be fitted and errors that could not be measured are null."""
    content = asdict(comparison)
    content["formulas"] = {kind: asdict(written) for kind, written in formulas(comparison.settings.cell).items()}
    content["how"] = {"time": HOW_TIMED, "memory": HOW_MEMORY, "chance": CHANCE}
    every = [*content["reaches"], content["joined"], content["missed"]]
    for written, reach in zip(every, [*comparison.reaches, comparison.joined, comparison.missed], strict=True):
        written.update(length=reach.length, earliest=reach.earliest, reached=reach.reached)
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


_CELL_NAMES = {"gru": "gated recurrent unit", "rnn": "Elman's cell"}


def render_comparison(comparison: Comparison) -> Explanation:
    """Return the explanation of all parts, in the order of the questions that they answer."""
    settings = comparison.settings
    title = "Convolution, recurrence and self-attention"
    introduction = (
        f"One layer each, of one width: a causal convolution of kernel k = {settings.kernel}, a recurrence "
        f"({_CELL_NAMES[settings.cell]}), and self-attention with one head.",
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
        f"Measured on {machine.processor}, {_many(machine.threads, 'thread')}, PyTorch {machine.torch}, "
        f"seed {settings.seed}, in {comparison.seconds:.0f} s.",
    )
    return Explanation(title, introduction, None, steps, ending)


def _formulas(comparison: Comparison) -> Step:
    headings = ("layer", "operations", "with projections", "sequential steps", "longest path", "O(…)")
    columns = tuple(Column(heading) for heading in headings)
    written = formulas(comparison.settings.cell)
    rows = tuple(
        (
            kind,
            formula.without_projections,
            formula.with_projections,
            formula.sequential_steps,
            formula.path_length,
            formula.order,
        )
        for kind, formula in written.items()
    )
    return Step("1. What one layer costs, on paper", COUNTED, Table(columns, rows))


def _counted(comparison: Comparison) -> Step:
    width, kernel = comparison.settings.width, comparison.settings.kernel
    columns = _columns("n", "convolution", "recurrence", "+ projections", "attention", "+ projections", "longest path")
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
        "The usual O(n² d) leaves out attention's four projections, 4 n d², which cost more while "
        f"n < 2 d = {2 * width:,}.",
    )
    return Step(
        f"2. The same in numbers: d = {width:,}, k = {kernel}",
        ("Millions of operations. Longest path: convolutions / recurrence / attention.",),
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
    total = ("exponent", *map(_exponent, fitted))
    text = [f"ms: {HOW_TIMED}.", f"MiB: {HOW_MEMORY}."] if by_length else []
    counted = ", ".join(f"{_short(growth.kind)} {symbol}^{_exponent(growth.operations)}" for growth in sweep.growth)
    over = sweep.growth[0].operations
    after = (
        [f"Exponent p of {symbol}^p, fitted over {symbol} = {over.first:,} … {over.last:,}. The operations (with "
         f"projections) counted over the same range grow as {counted}."] if over else []
    )  # fmt: skip
    number, what, held = (
        (3, "length", comparison.settings.width) if by_length else (4, "width", comparison.settings.lengths[0])
    )
    heading = f"{number}. Measured over the {what}: {other} = {held:,}"
    return Step(heading, tuple(text), Table(columns, tuple(rows), total), tuple(after))


def _forms(comparison: Comparison) -> Step:
    forms = comparison.forms
    longest = forms.points[-1].length
    columns = _columns("form", "ms", "MiB", "time exponent", "memory exponent", "error")
    rows = []
    for growth in forms.growth:
        points = forms.of(growth.form)
        last = points[-1] if points and points[-1].length == longest else None
        errors = [point.error for point in points if point.error is not None]
        rows.append(
            (
                growth.form,
                _significant(last.measured.seconds * 1e3) if last else "–",
                _significant(last.measured.peak_bytes / 2**20) if last else "–",
                _exponent(growth.seconds),
                _exponent(growth.bytes),
                _size(errors[-1]) if errors else "–",
            )
        )
    text = (
        f"One head of width {forms.width:,} at n = {longest:,}, standard normal inputs. Neighbours matter no "
        f"more than others there: the worst case of a window ({WINDOW} positions on either side). Exponents in n are "
        "fitted as above.",
    )
    after = (
        "Error: root mean square of the difference from the whole matrix, relative to its output"
        + (f", at the longest n up to {MAX_MATRIX_LENGTH:,}." if longest > MAX_MATRIX_LENGTH else "."),
        "Fused and chunked are exact; linear attention is exact for another kernel than softmax.",
    )
    return Step("5. Attention for long inputs", text, Table(columns, tuple(rows)), after)


def _reach(comparison: Comparison) -> Step:
    kernel, layers = comparison.settings.kernel, comparison.settings.layers
    columns = _columns("layer", "layers", "inputs", "predicted", "reached", "from", "|dy/dx first|", "|dy/dx last|")
    rows = []
    for reach in comparison.reaches:
        field = receptive_field(reach.layers, kernel) if reach.kind == "convolution" else reach.length
        rows.append(
            (
                reach.kind,
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
        f"L convolutions see 1 + L (k−1) inputs. For k = {kernel}, L = {layers} they join x1 and x{joined.length} "
        f"(size of the derivative {first}), but not x1 and x{missed.length} ({lost}); "
        f"{inputs} inputs take {_many(layers_to_join(inputs, kernel), 'layer')}.",
    )
    text = ("From true gradients in float64, untrained layers: 0 is the absence of a path.",)
    return Step("6. Which inputs reach the last output", text, Table(columns, tuple(rows)), after)


def _copied(comparison: Comparison) -> Step:
    settings = comparison.settings
    columns = _columns("n", *KINDS)
    rows = []
    for length in settings.copy_lengths:
        accuracies = (f"{point.accuracy:.1%}" for point in comparison.copied if point.length == length)
        rows.append((f"{length:,}", *accuracies))
    parameters = {point.kind: point.parameters for point in comparison.copied}
    text = (
        f"Each layer is trained anew at each n, on {settings.updates:,} batches of {BATCH} random sequences of "
        f"{VOCABULARY} tokens, d = {settings.width:,}; then tested on {TESTED:,} fresh ones. Chance is {CHANCE:.1%}.",
    )
    seen = f"At n > {settings.kernel} the first token is outside the convolution's field."
    paths = "The recurrence must keep it for n − 1 steps; attention looks at it in one."
    held = ", ".join(f"{kind} {parameters[kind]:,}" for kind in KINDS)
    return Step(
        "7. A learned task: name the first of n tokens at the last",
        text,
        Table(columns, tuple(rows)),
        (f"{seen} {paths}", f"Parameters: {held}."),
    )


def _columns(first: str, *others: str) -> tuple[Column, ...]:
    return (Column(first), *(Column(heading, numeric=True) for heading in others))


def _short(kind: Kind) -> str:
    return {"convolution": "conv.", "recurrence": "rec.", "self-attention": "att."}[kind]


def _exponent(fitted: Exponent | None) -> str:
    return "–" if fitted is None else f"{fitted.value:.2f}"


def _size(number: float) -> str:
    return "0" if number == 0 else f"{number:.3f}" if number >= 0.01 else f"{number:.1e}"


def _significant(number: float) -> str:
    """Three digits that matter, with thousands separated."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
