"""A comparison as headings, sentences and tables."""

from __future__ import annotations

from dikkat.explain.comparison.copy_task import BATCH, CHANCE, TESTED, VOCABULARY
from dikkat.explain.comparison.costs import COUNTED, formulas, layers_to_join, receptive_field
from dikkat.explain.comparison.forms import LONGEST_MATRIX, WINDOW
from dikkat.explain.comparison.kinds import KINDS, Kind
from dikkat.explain.comparison.measurement import HOW_MEMORY, HOW_TIMED, Exponent
from dikkat.explain.comparison.result import Comparison
from dikkat.explain.comparison.sweeps import Sweep
from dikkat.explain.story import Column, Step, Story, Table

_CELL_NAMES = {"gru": "gated recurrent unit", "rnn": "Elman's cell"}


def tell_comparison(found: Comparison) -> Story:
    """The story of all parts, in the order of the questions that they answer."""
    settings = found.settings
    title = "Convolution, recurrence and self-attention"
    introduction = (
        f"One layer each, of one width: a causal convolution of kernel k = {settings.kernel}, a recurrence "
        f"({_CELL_NAMES[settings.cell]}), and self-attention with one head.",
    )
    steps = (
        _formulas(found),
        _counted(found),
        _measured(found, found.over_length),
        _measured(found, found.over_width),
        _forms(found),
        _reach(found),
        _copied(found),
    )
    machine = found.machine
    ending = (
        f"Measured on {machine.processor}, {_many(machine.threads, 'thread')}, PyTorch {machine.torch}, "
        f"seed {settings.seed}, in {found.seconds:.0f} s.",
    )
    return Story(title, introduction, None, steps, ending)


def _formulas(found: Comparison) -> Step:
    headings = ("layer", "operations", "with projections", "sequential steps", "longest path", "O(…)")
    columns = tuple(Column(heading) for heading in headings)
    written = formulas(found.settings.cell)
    rows = tuple(
        (kind, each.without_projections, each.with_projections, each.sequential_steps, each.path_length, each.order)
        for kind, each in written.items()
    )
    return Step("1. What one layer costs, on paper", COUNTED, Table(columns, rows))


def _counted(found: Comparison) -> Step:
    width, kernel = found.settings.width, found.settings.kernel
    columns = _columns("n", "convolution", "recurrence", "+ projections", "attention", "+ projections", "longest path")
    rows = []
    for length in found.settings.lengths:
        conv, recurrent, attention = (each for each in found.costs if each.length == length)
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


def _measured(found: Comparison, sweep: Sweep) -> Step:
    by_length = sweep.over == "length"
    symbol, other = ("n", "d") if by_length else ("d", "n")
    columns = _columns(symbol, *(f"{_short(kind)} {unit}" for unit in ("ms", "MiB") for kind in KINDS))
    rows = []
    for place, size in enumerate(sweep.sizes):
        points = [sweep.of(kind)[place] for kind in KINDS]
        times = (_significant(point.measured.seconds * 1e3) for point in points)
        memory = (_significant(point.measured.peak_bytes / 2**20) for point in points)
        rows.append((f"{size:,}", *times, *memory))
    fitted = [*(each.seconds for each in sweep.growth), *(each.bytes for each in sweep.growth)]
    total = ("exponent", *map(_exponent, fitted))
    text = [f"ms: {HOW_TIMED}.", f"MiB: {HOW_MEMORY}."] if by_length else []
    counted = ", ".join(f"{_short(each.kind)} {symbol}^{_exponent(each.operations)}" for each in sweep.growth)
    over = sweep.growth[0].operations
    after = (
        [f"Exponent p of {symbol}^p, fitted over {symbol} = {over.first:,} … {over.last:,}. The operations (with "
         f"projections) counted over the same range grow as {counted}."] if over else []
    )  # fmt: skip
    number, what, held = (3, "length", found.settings.width) if by_length else (4, "width", found.settings.lengths[0])
    heading = f"{number}. Measured over the {what}: {other} = {held:,}"
    return Step(heading, tuple(text), Table(columns, tuple(rows), total), tuple(after))


def _forms(found: Comparison) -> Step:
    forms = found.forms
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
        + (f", at the longest n up to {LONGEST_MATRIX:,}." if longest > LONGEST_MATRIX else "."),
        "Fused and chunked are exact; linear attention is exact for another kernel than softmax.",
    )
    return Step("5. Attention for long inputs", text, Table(columns, tuple(rows)), after)


def _reach(found: Comparison) -> Step:
    kernel, layers = found.settings.kernel, found.settings.layers
    columns = _columns("layer", "layers", "inputs", "predicted", "reached", "from", "|dy/dx first|", "|dy/dx last|")
    rows = []
    for each in found.reaches:
        field = receptive_field(each.layers, kernel) if each.kind == "convolution" else each.length
        rows.append(
            (
                each.kind,
                f"{each.layers}",
                f"{each.length}",
                f"{min(field, each.length)}",
                f"{each.reached}",
                f"x{each.earliest}",
                _size(each.sizes[0]),
                _size(each.sizes[-1]),
            )
        )
    joined, missed = found.joined, found.missed
    inputs = found.reaches[0].length
    first, lost = _size(joined.sizes[0]), _size(missed.sizes[0])
    after = (
        f"L convolutions see 1 + L (k−1) inputs. For k = {kernel}, L = {layers} they join x1 and x{joined.length} "
        f"(size of the derivative {first}), but not x1 and x{missed.length} ({lost}); "
        f"{inputs} inputs take {_many(layers_to_join(inputs, kernel), 'layer')}.",
    )
    text = ("From true gradients in float64, untrained layers: 0 is the absence of a path.",)
    return Step("6. Which inputs reach the last output", text, Table(columns, tuple(rows)), after)


def _copied(found: Comparison) -> Step:
    settings = found.settings
    columns = _columns("n", *KINDS)
    rows = []
    for length in settings.copy_lengths:
        accuracies = (f"{each.accuracy:.1%}" for each in found.copied if each.length == length)
        rows.append((f"{length:,}", *accuracies))
    parameters = {each.kind: each.parameters for each in found.copied}
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
