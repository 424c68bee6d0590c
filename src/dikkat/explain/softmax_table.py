"""Show the softmax of a trace as a table: exponentials, their sum, quotients and weights."""

from __future__ import annotations

from dikkat.explain.digits import fixed
from dikkat.explain.explanation import Column, Table
from dikkat.explain.trace import Trace
from dikkat_runtime.messages import msg


def softmax_table(trace: Trace, names: str) -> Table:
    """Return one row a key: scaled score, exponential, quotient and weight; the sums last.

    `names` heads the first column.
    """
    exponential = msg("exponential of (score − {largest})" if trace.shift else "exponential")
    total = fixed(trace.exponential_sum)
    rows = [
        (token, fixed(score), fixed(power), f"{fixed(power)} / {total}", fixed(weight))
        if allowed
        else (token, msg("masked"), fixed(0.0), f"{fixed(0.0)} / {total}", fixed(0.0))
        for token, score, power, weight, allowed in zip(
            trace.cell.key_tokens,
            trace.biased.tolist(),
            trace.exponentials.tolist(),
            trace.weights.tolist(),
            trace.allowed.tolist(),
            strict=True,
        )
    ]
    columns = (
        Column(names),
        Column(score_heading(trace), numeric=True),
        Column(exponential.fill(largest=fixed(trace.shift)), numeric=True),
        Column(msg("exponential / sum"), numeric=True),
        Column(msg("weight"), numeric=True),
    )
    return Table(columns, tuple(rows), (msg("sum"), "", total, "", fixed(float(trace.weights.sum()))))


def score_heading(trace: Trace) -> str:
    """Return the name of the scores when they reach the softmax."""
    if trace.cell.bias is not None:
        return msg("with position")
    return msg("score" if trace.cell.beta == 1.0 else "score × β")


def shift_note(trace: Trace) -> tuple[str, ...]:
    """Return why the largest score is subtracted, if it is."""
    return (
        (
            msg(
                "The scores are large, so the largest, {largest}, is first subtracted from each: no "
                "weight changes by that, and no exponential overflows."
            ).fill(largest=fixed(trace.shift)),
        )
        if trace.shift
        else ()
    )
