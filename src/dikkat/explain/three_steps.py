"""Explain the attention of typed words in three steps: scores, weights, context."""

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.trace import Trace
from dikkat.explain.word_vectors import WordVectors
from dikkat.explain.written_numbers import (
    CUT,
    ROUNDED,
    WRITTEN_OUT,
    dot_product,
    fixed,
    plain,
    shift_note,
    softmax_table,
    trimmed,
    vector,
)
from dikkat_runtime.errors import msg


def render_three_steps(words: WordVectors, trace: Trace, *, full: bool = False) -> Explanation:
    """Return the explanation of `trace`, a cell of `words`."""
    cell = trace.cell
    left_out = " ".join(f"“{token}”" for token in dict.fromkeys(words.left_out))
    return Explanation(
        title=msg("“{sentence}”: self-attention of “{query}” in three steps", words.sentence, cell.query_token),
        introduction=(
            msg("Each word is its own query, key and value: there are no trained matrices. Width: {width}.").fill(
                len(cell.query)
            ),
            *((msg("{tokens} has no vector and is left out.", left_out),) if left_out else ()),
            ROUNDED,
            *((CUT,) if len(cell.query) > WRITTEN_OUT and not full else ()),
        ),
        vectors=_vectors(trace, full),
        steps=(_scores(trace, full), _weights(trace), _context(trace, full)),
        ending=(
            msg("In short: scores {scores} · weights {weights} · context {context}").fill(
                plain(trace.scores), plain(trace.weights), plain(trace.total)
            ),
        ),
    )


def _vectors(trace: Trace, full: bool) -> Table:
    cell = trace.cell
    numbered = enumerate(zip(cell.key_tokens, cell.keys, strict=True), start=1)
    return Table(
        (Column("#", numeric=True), Column(msg("word")), Column(msg("vector"))),
        tuple((str(number), token, vector(key, full=full, write=trimmed)) for number, (token, key) in numbered),
    )


def _scores(trace: Trace, full: bool) -> Step:
    cell = trace.cell
    rows = tuple(
        (token, dot_product(cell.query, key, full=full), fixed(score))
        for token, key, score in zip(cell.key_tokens, cell.keys, trace.scores.tolist(), strict=True)
    )
    sentence = msg(
        "The score of a word is the dot product of the query “{query}” and the key of that word: "
        "multiply number by number, then add."
    )
    columns = (Column(msg("word")), Column(msg("q·k, term by term")), Column(msg("score"), numeric=True))
    return Step(msg("Step 1. Scores"), (sentence.fill(query=cell.query_token),), Table(columns, rows))


def _weights(trace: Trace) -> Step:
    sentence = msg(
        "Softmax: take the exponential of each score and divide it by the sum of all "
        "exponentials. The weights are positive and sum to 1."
    )
    beta = trace.cell.beta
    notes = () if beta == 1.0 else (msg("Before that, each score is multiplied by β = {beta}.", fixed(beta)),)
    return Step(msg("Step 2. Weights"), (sentence, *notes, *shift_note(trace)), softmax_table(trace, msg("word")))


def _context(trace: Trace, full: bool) -> Step:
    cell = trace.cell
    rows = tuple(
        (token, f"{fixed(weight)} · {vector(value, full=full, write=trimmed)}", vector(weighted, full=full))
        for token, weight, value, weighted in zip(
            cell.key_tokens, trace.weights.tolist(), cell.values, trace.weighted, strict=True
        )
    )
    sentence = msg("Multiply each value by its weight and add them up: the context vector of “{query}”.")
    columns = (Column(msg("word")), Column(msg("weight × value")), Column("="))
    table = Table(columns, rows, (msg("sum"), "", vector(trace.total, full=full)))
    return Step(msg("Step 3. Context"), (sentence.fill(query=cell.query_token),), table)
