"""Show the softmax of a trace as a table: exponentials, their sum, quotients and weights."""

from __future__ import annotations

from dikkat.explain.digits import fixed
from dikkat.explain.explanation import Column, Table
from dikkat.explain.messages import Messages
from dikkat.explain.trace import Trace


def softmax_table(trace: Trace, messages: Messages, names: str) -> Table:
    """Return one row a key: scaled score, exponential, quotient and weight; the sums last.

    `names` heads the first column.
    """
    head = messages.headings
    exponential = head.exponential_shifted if trace.shift else head.exponential
    total = fixed(trace.exponential_sum)
    rows = [
        (token, fixed(score), fixed(power), f"{fixed(power)} / {total}", fixed(weight))
        if allowed
        else (token, head.masked, fixed(0.0), f"{fixed(0.0)} / {total}", fixed(0.0))
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
        Column(score_heading(trace, messages), numeric=True),
        Column(exponential.format(largest=fixed(trace.shift)), numeric=True),
        Column(head.quotient, numeric=True),
        Column(head.weight, numeric=True),
    )
    return Table(columns, tuple(rows), (head.sum, "", total, "", fixed(float(trace.weights.sum()))))


def score_heading(trace: Trace, messages: Messages) -> str:
    """Return the name of the scores when they reach the softmax."""
    head = messages.headings
    if trace.cell.bias is not None:
        return head.biased
    return head.score if trace.cell.beta == 1.0 else head.scaled


def shift_note(trace: Trace, messages: Messages) -> tuple[str, ...]:
    """Return why the largest score is subtracted, if it is."""
    return (messages.shifted.format(largest=fixed(trace.shift)),) if trace.shift else ()
