"""Explain a cell of attention word by word: the weights of the tokens of a word, added."""

from __future__ import annotations

from dikkat.explain.digits import fixed
from dikkat.explain.explanation import Column, Step, Table
from dikkat.explain.joined_words import Words, has_spaces
from dikkat.explain.trace import ModelTrace
from dikkat_runtime.localization import localized


def word_step(traced: ModelTrace, read: str) -> Step:
    """Return a seventh step in the spoken language; `read` is the text of the keys, as the user wrote it."""
    tokens, weights = traced.trace.cell.key_tokens, traced.trace.weights
    words = Words.of(tokens, read, spaced=has_spaces(tokens))
    rows = tuple(
        (name, " ".join(token for token, is_member in zip(tokens, members, strict=True) if is_member), fixed(weight))
        for name, members, weight in zip(words.names, words.members, words.members @ weights, strict=True)
    )
    columns = (Column(localized("word")), Column(localized("tokens")), Column(localized("weight"), numeric=True))
    return Step(
        localized("7. The same by word"),
        (localized("A word has the weights of all its tokens; they still sum to 1."),),
        Table(columns, rows, ("", localized("sum"), fixed(float(weights.sum())))),
    )
