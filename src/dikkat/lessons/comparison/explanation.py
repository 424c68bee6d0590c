"""Explain a comparison with headings, sentences and tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.lessons.comparison.layers import (
    COUNTED,
    FORMULAS,
    KINDS,
    ComparisonSettings,
    Cost,
    Kind,
    Reach,
    layers_to_join,
    receptive_field,
)
from dikkat.lessons.comparison.measurement import HOW_MEMORY, HOW_TIMED, Exponent, Sweep
from dikkat_runtime.errors import msg, plural

# The result of a comparison, also as JSON.


@dataclass(frozen=True, slots=True)
class Machine:
    """Hold the machine that was measured on."""

    processor: str
    threads: int
    torch: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold what was counted, measured and differentiated."""

    settings: ComparisonSettings
    machine: Machine
    costs: tuple[Cost, ...]
    """Cost of every kind at every length."""
    over_length: Sweep
    reaches: tuple[Reach, ...]
    """Reach of every kind through one layer, then through the stack."""
    joined: Reach
    """Reach of the stack of convolutions over as many inputs as its receptive field holds."""
    missed: Reach
    """Reach of the same stack over one input more."""
    seconds: float


def numbers(comparison: Comparison) -> dict[str, Any]:
    """Return every number, and how each was found; None is what could not be fitted or measured."""
    content = asdict(comparison)
    content["formulas"] = {kind: asdict(written) for kind, written in FORMULAS.items()}
    content["how"] = {"time": HOW_TIMED, "memory": HOW_MEMORY}
    every = [*content["reaches"], content["joined"], content["missed"]]
    for written, reach in zip(every, [*comparison.reaches, comparison.joined, comparison.missed], strict=True):
        written.update(length=reach.length, earliest=reach.earliest, reached=reach.reached)
    return content


def render_comparison(comparison: Comparison) -> Explanation:
    """Return the explanation of all parts, in the order of the questions that they answer."""
    settings = comparison.settings
    introduction = (
        msg(
            "One layer each, of one width: a causal convolution of kernel k = {kernel}, a recurrence (gated recurrent "
            "unit), and self-attention with one head."
        ).fill(settings.kernel),
    )
    steps = (_formulas(), _counted(comparison), _measured(comparison), _reach(comparison))
    machine = comparison.machine
    ending = (
        msg("Measured on {processor}, {threads}, PyTorch {torch}, seed {seed}, in {seconds:.0f} s.").fill(
            machine.processor, plural(machine.threads, "thread"), machine.torch, settings.seed, comparison.seconds
        ),
    )
    return Explanation(msg("Convolution, recurrence and self-attention"), introduction, None, steps, ending)


def _formulas() -> Step:
    headings = ("layer", "operations", msg("with projections"), msg("sequential steps"), msg("longest path"), "O(…)")
    columns = tuple(Column(msg(heading)) for heading in headings)
    rows = []
    for kind, formula in FORMULAS.items():
        operations = (formula.without_projections, formula.with_projections)
        rows.append((msg(kind), *operations, formula.sequential_steps, formula.path_length, formula.order))
    return Step(msg("1. What one layer costs, on paper"), COUNTED, Table(columns, tuple(rows)))


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


def _measured(comparison: Comparison) -> Step:
    sweep = comparison.over_length
    columns = _columns("n", *(f"{_short(kind)} {unit}" for unit in ("ms", "MiB") for kind in KINDS))
    rows = []
    for index, length in enumerate(sweep.lengths):
        points = [sweep.of(kind)[index] for kind in KINDS]
        times = (_significant(point.measured.seconds * 1e3) for point in points)
        rows.append((f"{length:,}", *times, *(_significant(point.measured.peak_bytes / 2**20) for point in points)))
    fitted = [*(growth.seconds for growth in sweep.growth), *(growth.bytes for growth in sweep.growth)]
    counted = ", ".join(f"{_short(growth.kind)} n^{_exponent(growth.operations)}" for growth in sweep.growth)
    over = sweep.growth[0].operations
    text = msg(
        "Exponent p of n^p, fitted over n = {first:,} … {last:,}. The operations (with projections) counted over the "
        "same range grow as {exponents}."
    )
    return Step(
        msg("3. Measured over the length: d = {value:,}", comparison.settings.width),
        (msg("ms: {method}.", HOW_TIMED), msg("MiB: {method}.", HOW_MEMORY)),
        Table(columns, tuple(rows), (msg("exponent"), *map(_exponent, fitted))),
        (text.fill(over.first, over.last, counted),) if over else (),
    )


def _reach(comparison: Comparison) -> Step:
    kernel, layers = comparison.settings.kernel, comparison.settings.layers
    columns = _columns("layer", "layers", "inputs", "predicted", "reached", "from", "|dy/dx first|", "|dy/dx last|")
    rows = []
    for reach in comparison.reaches:
        field = receptive_field(reach.layers, kernel) if reach.kind == "convolution" else reach.length
        counts = (reach.layers, reach.length, min(field, reach.length), reach.reached)
        ends = (_size(reach.sizes[0]), _size(reach.sizes[-1]))
        rows.append((msg(reach.kind), *map(str, counts), f"x{reach.earliest}", *ends))
    joined, missed = comparison.joined, comparison.missed
    inputs = comparison.reaches[0].length
    first, lost = _size(joined.sizes[0]), _size(missed.sizes[0])
    needed = plural(layers_to_join(inputs, kernel), "layer")
    after = (
        msg(
            "L convolutions see 1 + L (k−1) inputs. For k = {kernel}, L = {layers} they join x1 and x{length} "
            "(size of the derivative {first}), but not x1 and x{missed} ({lost}); {inputs} inputs take {needed}."
        ).fill(kernel, layers, joined.length, first, missed.length, lost, inputs, needed),
    )
    text = (msg("From true gradients in float64, untrained layers: 0 is the absence of a path."),)
    return Step(msg("4. Which inputs reach the last output"), text, Table(columns, tuple(rows)), after)


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
