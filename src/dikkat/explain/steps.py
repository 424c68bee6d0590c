"""Explain attention in three steps for typed words, and in six for one cell of a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dikkat.explain.attention_map import END
from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.joined_words import Words, has_spaces
from dikkat.explain.messages import Messages
from dikkat.explain.trace import Array, Cell, ModelTrace, Trace
from dikkat.explain.word_vectors import WordVectors
from dikkat_runtime.localization import localized

# Format numbers, vectors and sums of products.

SHOWN = 3
"""Numbers of a wide vector that are written unless all are asked for."""
WRITTEN_OUT = 8
"""Width up to which vectors are always written in full."""


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


# Show the softmax of a trace as a table: exponentials, their sum, quotients and weights.


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


# Explain the attention of typed words in three steps: scores, weights, context.


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


# Explain one attention cell of a trained model in six steps, from the three vectors to the sum.

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
            _cell_vectors(traced, messages, full),
            _cell_scores(trace, messages, full),
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


def _cell_vectors(traced: ModelTrace, messages: Messages, full: bool) -> Step:
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


def _cell_scores(trace: Trace, messages: Messages, full: bool) -> Step:
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
