"""Write numbers, vectors and sums of products, and the softmax of a trace as a table."""

from collections.abc import Callable

from dikkat.explain.explanation import Column, Table
from dikkat.explain.trace import Array, Trace
from dikkat_runtime.errors import msg

SHOWN = 3
"""Numbers of a wide vector that are written unless all are asked for."""
WRITTEN_OUT = 8
"""Width up to which vectors are always written in full."""
ROUNDED = msg("Every number is computed with all its digits and rounded only where it is printed.")
CUT = msg("“…” stands for numbers that are computed with but not shown; --full shows them all.")


def fixed(number: float) -> str:
    """Return a number with four decimals, or with a power of ten where four decimals would hide it."""
    if abs(number) >= 1e6 or 0 < abs(number) < 5e-5:
        return f"{number:.2e}"
    # a rounded "-0.0000" would be a sign without a number
    return f"{number:.4f}" if number else "0.0000"


def trimmed(number: float) -> str:
    """Return a number without trailing zeros, as its author would write it."""
    text = fixed(number)
    return text if "e" in text else text.rstrip("0").rstrip(".")


def vector(numbers: Array, *, full: bool = False, write: Callable[[float], str] = fixed) -> str:
    """Return `[0.3990, 0.3854, 0.8610]`; a wide vector is cut after a few numbers unless `full`."""
    shown = _shown(len(numbers), full)
    rest = ["…"] if shown < len(numbers) else []
    return f"[{', '.join([*map(write, numbers[:shown].tolist()), *rest])}]"


def plain(numbers: Array) -> str:
    """Return `0.3990 0.3854 0.8610`."""
    return " ".join(fixed(float(number)) for number in numbers)


def dot_product(left: Array, right: Array, *, full: bool = False) -> str:
    """Return `0.53·0.34 + 0.34·0.22` and, below, the products: `= 0.1802 + 0.0748`.

    A long sum is cut after a few terms, with the number of the others, and without the products, unless `full`.
    """
    shown = _shown(len(left), full)
    pairs = zip(left[:shown].tolist(), right[:shown].tolist(), strict=True)
    sums = " + ".join(f"{_bracketed(trimmed(a))}·{_bracketed(trimmed(b))}" for a, b in pairs)
    if shown < len(left):
        return f"{sums} + … (+{len(left) - shown})"
    return f"{sums}\n= {' + '.join(_bracketed(fixed(term)) for term in (left * right).tolist())}"


def additive_score(scale: Array, left: Array, right: Array, *, full: bool = False) -> str:
    """Return `0.5·tanh(0.1 + 0.2) + …`, cut like a dot product."""
    shown = _shown(len(left), full)
    numbers = zip(scale[:shown].tolist(), left[:shown].tolist(), right[:shown].tolist(), strict=True)
    terms = [f"{_bracketed(trimmed(v))}·tanh({trimmed(a)} + {_bracketed(trimmed(b))})" for v, a, b in numbers]
    rest = [f"… (+{len(left) - shown})"] if shown < len(left) else []
    return " + ".join([*terms, *rest])


def _bracketed(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _shown(width: int, full: bool) -> int:
    return width if full or width <= WRITTEN_OUT else SHOWN


def softmax_table(trace: Trace, names: str) -> Table:
    """Return one row a key: scaled score, exponential, quotient and weight; the sums last.

    `names` heads the first column.
    """
    exponential = msg("exponential of (score − {largest})" if trace.shift else "exponential")
    total = fixed(trace.exponential_sum)
    numbers = (part.tolist() for part in (trace.biased, trace.exponentials, trace.weights, trace.allowed))
    rows = [
        (token, fixed(score), fixed(power), f"{fixed(power)} / {total}", fixed(weight))
        if allowed
        else (token, msg("masked"), fixed(0.0), f"{fixed(0.0)} / {total}", fixed(0.0))
        for token, score, power, weight, allowed in zip(trace.cell.key_tokens, *numbers, strict=True)
    ]
    heading = msg("score" if trace.cell.beta == 1.0 else "score × β")
    if trace.cell.bias is not None:
        heading = msg("with position")
    columns = (
        Column(names),
        Column(heading, numeric=True),
        Column(exponential.fill(largest=fixed(trace.shift)), numeric=True),
        Column(msg("exponential / sum"), numeric=True),
        Column(msg("weight"), numeric=True),
    )
    return Table(columns, tuple(rows), (msg("sum"), "", total, "", fixed(float(trace.weights.sum()))))


def shift_note(trace: Trace) -> tuple[str, ...]:
    """Return why the largest score is subtracted, if it is."""
    text = msg(
        "The scores are large, so the largest, {largest}, is first subtracted from each: no "
        "weight changes by that, and no exponential overflows."
    )
    return (text.fill(fixed(trace.shift)),) if trace.shift else ()
