"""Explain one attention cell of a trained model in six steps, from the three vectors to the sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dikkat.explain.digits import WRITTEN_OUT, additive_score, dot_product, fixed, vector
from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.joined_words import Words, has_spaces
from dikkat.explain.messages import Messages
from dikkat.explain.sentence_maps import END
from dikkat.explain.softmax_table import shift_note, softmax_table
from dikkat.explain.trace import Array, Cell, ModelTrace, Trace
from dikkat_runtime.localization import localized

DROWNED = 0.001
"""Weight below which a value has next to no part in the sum."""


def render_six_steps(
    traced: ModelTrace,
    sentence: str,
    target: str | None,
    query_tokens: Sequence[str],
    messages: Messages,
    *,
    full: bool = False,
) -> Explanation:
    """Return the explanation of `traced`, a cell of a model that read `sentence` (and, in a decoder, `target`)."""
    text, trace = messages.six, traced.trace
    cross = traced.kind == "cross"
    facts = _facts(traced)
    introduction = [text.sentence.format(sentence=sentence)]
    introduction += [text.target.format(target=target)] if target is not None else []
    introduction += [text.cross] if cross else []
    introduction += [text.model.format(**facts), text.tokens.format(tokens=_numbered(trace.cell.key_tokens))]
    if cross:
        written = (*query_tokens, END)[trace.cell.query_number]
        introduction.append(text.queries.format(tokens=_numbered(query_tokens)))
        introduction.append(text.reading.format(read=trace.cell.query_token, written=written))
    introduction.append(messages.rounding)
    introduction += [messages.shortened] if len(traced.query_input) > WRITTEN_OUT and not full else []
    attention = text.attentions.get((traced.stack, traced.kind), f"{traced.stack}, {traced.kind}-attention")
    return Explanation(
        title=text.title.format(attention=attention, **facts),
        introduction=tuple(introduction),
        vectors=None,
        steps=(
            _vectors(traced, messages, full),
            _scores(trace, messages, full),
            _scaling(trace, messages, facts),
            _softmax(trace, messages),
            _weighting(trace, messages, full),
            _total(traced, messages, full),
        ),
        ending=(_onward(traced, messages),),
    )


def _facts(traced: ModelTrace) -> dict[str, str | int]:
    cell = traced.trace.cell
    return {
        "query": cell.query_token,
        "layer": traced.layer + 1,
        "head": traced.head + 1,
        "num_heads": traced.num_heads,
        "head_dim": len(cell.query),
        "model_dim": len(traced.query_input),
        "root": fixed(math.sqrt(len(cell.query))),
        "beta": fixed(cell.beta),
        "below": traced.layer,
    }


def _vectors(traced: ModelTrace, messages: Messages, full: bool) -> Step:
    cell, head = traced.trace.cell, messages.headings
    if traced.kind == "cross":
        origin = "cross"
    elif traced.layer:
        origin = "below"
    else:
        origin = "embedding" if traced.positions_added else "bare_embedding"
    rows = tuple(
        (str(number), token, vector(key, full=full), vector(value, full=full))
        for number, (token, key, value) in enumerate(zip(cell.key_tokens, cell.keys, cell.values, strict=True), start=1)
    )
    title, sentence = messages.six.vectors
    facts = _facts(traced)
    texts = (
        sentence.format(**facts),
        messages.six.inputs[origin].format(**facts),
        f"x = {vector(traced.query_input, full=full)}",
        *(messages.six.turns[turn] for turn in traced.turns),
        f"{_formula(traced)} = {vector(cell.query, full=full)}",
    )
    columns = (Column("#", numeric=True), Column(head.token), Column(head.key), Column(head.value))
    return Step(title, texts, Table(columns, rows))


def _formula(traced: ModelTrace) -> str:
    if traced.turns:
        return "q"
    return "q = x·WQ + bQ" if traced.has_bias else "q = x·WQ"


def _scores(trace: Trace, messages: Messages, full: bool) -> Step:
    cell, head = trace.cell, messages.headings
    rows = tuple(
        (token, _written_score(cell, key, full), fixed(score))
        for token, key, score in zip(cell.key_tokens, cell.keys, trace.scores.tolist(), strict=True)
    )
    title, sentence = messages.six.scores
    terms = head.products
    if cell.score_vector is not None:
        sentence, terms = messages.six.additive, head.additive
    columns = (Column(head.token), Column(terms), Column(head.score, numeric=True))
    return Step(title, (sentence.format(query=cell.query_token),), Table(columns, rows))


def _written_score(cell: Cell, key: Array, full: bool) -> str:
    if cell.score_vector is not None:
        return additive_score(cell.score_vector, cell.query, key, full=full)
    return dot_product(cell.query, key, full=full)


def _scaling(trace: Trace, messages: Messages, facts: dict[str, str | int]) -> Step:
    cell, head, text = trace.cell, messages.headings, messages.six
    hidden = int((~trace.allowed).sum())
    divided = math.isclose(cell.beta, len(cell.query) ** -0.5)
    operation = f"/ {facts['root']}" if divided else f"· {facts['beta']}"
    texts = [text.scaling[1].format(**facts) if divided else text.free_scaling.format(**facts)]
    columns = [
        (head.token, list(cell.key_tokens)),
        (head.score, [f"{fixed(score)} {operation}" for score in trace.scores.tolist()]),
        (head.scaled, [fixed(score) for score in trace.scaled.tolist()]),
    ]
    if cell.bias is not None:
        texts.append(text.bias.format(**facts))
        columns.append((head.bias, [fixed(share) for share in cell.bias.tolist()]))
        columns.append((head.biased, [fixed(score) for score in trace.biased.tolist()]))
    if hidden:
        texts.append(text.masking.format(count=hidden, total=len(trace.allowed), **facts))
        seen = [
            fixed(score) if allowed else head.masked
            for score, allowed in zip(trace.biased.tolist(), trace.allowed, strict=True)
        ]
        columns.append((head.mask, seen))
    headings = tuple(Column(heading, numeric=index > 0) for index, (heading, _) in enumerate(columns))
    return Step(
        text.scaling[0], tuple(texts), Table(headings, tuple(zip(*(cells for _, cells in columns), strict=True)))
    )


def _softmax(trace: Trace, messages: Messages) -> Step:
    title, sentence = messages.six.hard if trace.cell.hard else messages.six.softmax
    if not trace.allowed.any():
        texts: tuple[str, ...] = (messages.six.all_masked,)
    else:
        texts = (sentence,) if trace.cell.hard else (sentence, *shift_note(trace, messages))
    table = softmax_table(trace, messages, messages.headings.token)
    if trace.cell.hard:
        # no exponential is taken
        kept = (0, 1, 4)
        rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
        table = Table(tuple(table.columns[index] for index in kept), rows)
    return Step(title, texts, table)


def _weighting(trace: Trace, messages: Messages, full: bool) -> Step:
    cell, head, text = trace.cell, messages.headings, messages.six
    rows = tuple(
        (token, fixed(weight), vector(value, full=full), vector(weighted, full=full))
        for token, weight, value, weighted in zip(
            cell.key_tokens, trace.weights.tolist(), cell.values, trace.weighted, strict=True
        )
    )
    drowned = [
        token
        for token, weight, allowed in zip(cell.key_tokens, trace.weights, trace.allowed, strict=True)
        if allowed and weight < DROWNED
    ]
    after = text.drowned.format(tokens=", ".join(drowned)) if drowned else text.none_drowned
    title, sentence = text.weighting
    columns = (Column(head.token), Column(head.weight, numeric=True), Column(head.value), Column(head.weighted))
    return Step(title, (sentence,), Table(columns, rows), (after,) if trace.allowed.any() else ())


def _total(traced: ModelTrace, messages: Messages, full: bool) -> Step:
    title, sentence = messages.six.total
    texts = (
        sentence.format(query=traced.trace.cell.query_token),
        f"z = {vector(traced.trace.total, full=full)}",
        messages.six.check.format(difference=f"{traced.difference:.1e}"),
    )
    return Step(title, texts)


def _onward(traced: ModelTrace, messages: Messages) -> str:
    to_cross = traced.stack == "decoder" and traced.kind == "self"
    onward = messages.six.onward["cross_attention" if to_cross else "feed_forward"]
    joined = traced.num_heads * len(traced.trace.total)
    return messages.six.heads.format(**_facts(traced), joined=joined, onward=onward)


def _numbered(tokens: Sequence[str]) -> str:
    return " ".join(f"{number}:{token}" for number, token in enumerate(tokens, start=1))


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
