"""Explain the attention of typed words in three steps: scores, weights, context."""

from __future__ import annotations

from dikkat.explain.digits import WRITTEN_OUT, dot_product, fixed, plain, trimmed, vector
from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.messages import Messages
from dikkat.explain.softmax_table import shift_note, softmax_table
from dikkat.explain.trace import Trace
from dikkat.explain.word_vectors import WordVectors


def render_three_steps(words: WordVectors, trace: Trace, messages: Messages, *, full: bool = False) -> Explanation:
    """Return the explanation of `trace`, a cell of `words`."""
    text, cell = messages.three, trace.cell
    left_out = " ".join(f"“{token}”" for token in dict.fromkeys(words.left_out))
    return Explanation(
        title=text.title.format(sentence=words.sentence, query=cell.query_token),
        introduction=(
            text.introduction.format(width=len(cell.query)),
            *((text.left_out.format(tokens=left_out),) if left_out else ()),
            messages.rounding,
            *((messages.shortened,) if len(cell.query) > WRITTEN_OUT and not full else ()),
        ),
        vectors=_vectors(trace, messages, full),
        steps=(_scores(trace, messages, full), _weights(trace, messages), _context(trace, messages, full)),
        ending=(
            text.summary.format(scores=plain(trace.scores), weights=plain(trace.weights), context=plain(trace.total)),
        ),
    )


def _vectors(trace: Trace, messages: Messages, full: bool) -> Table:
    cell = trace.cell
    numbered = enumerate(zip(cell.key_tokens, cell.keys, strict=True), start=1)
    return Table(
        (Column("#", numeric=True), Column(messages.headings.word), Column(messages.headings.vector)),
        tuple((str(number), token, vector(key, full=full, write=trimmed)) for number, (token, key) in numbered),
    )


def _scores(trace: Trace, messages: Messages, full: bool) -> Step:
    cell, head = trace.cell, messages.headings
    rows = tuple(
        (token, dot_product(cell.query, key, full=full), fixed(score))
        for token, key, score in zip(cell.key_tokens, cell.keys, trace.scores.tolist(), strict=True)
    )
    title, sentence = messages.three.scores
    columns = (Column(head.word), Column(head.products), Column(head.score, numeric=True))
    return Step(title, (sentence.format(query=cell.query_token),), Table(columns, rows))


def _weights(trace: Trace, messages: Messages) -> Step:
    title, sentence = messages.three.weights
    beta = trace.cell.beta
    notes = () if beta == 1.0 else (messages.three.beta.format(beta=fixed(beta)),)
    table = softmax_table(trace, messages, messages.headings.word)
    return Step(title, (sentence, *notes, *shift_note(trace, messages)), table)


def _context(trace: Trace, messages: Messages, full: bool) -> Step:
    cell, head = trace.cell, messages.headings
    rows = tuple(
        (token, f"{fixed(weight)} · {vector(value, full=full, write=trimmed)}", vector(weighted, full=full))
        for token, weight, value, weighted in zip(
            cell.key_tokens, trace.weights.tolist(), cell.values, trace.weighted, strict=True
        )
    )
    title, sentence = messages.three.context
    columns = (Column(head.word), Column(head.weighted), Column("="))
    table = Table(columns, rows, (head.sum, "", vector(trace.total, full=full)))
    return Step(title, (sentence.format(query=cell.query_token),), table)
