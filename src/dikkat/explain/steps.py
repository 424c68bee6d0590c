"""Explain attention in three steps for typed words, and in six for one cell of a trained model."""

import math
from collections.abc import Callable, Sequence

from dikkat.explain.attention_map import END, Words, has_spaces
from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.trace import Array, Cell, ModelTrace, Trace
from dikkat.explain.word_vectors import WordVectors
from dikkat_runtime.errors import joined, msg

# Format numbers, vectors and sums of products.

SHOWN = 3
"""Numbers of a wide vector that are written unless all are asked for."""
WRITTEN_OUT = 8
"""Width up to which vectors are always written in full."""
_ROUNDED = msg("Every number is computed with all its digits and rounded only where it is printed.")
_CUT = msg("“…” stands for numbers that are computed with but not shown; --full shows them all.")


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


# Explain the attention of typed words in three steps: scores, weights, context.


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
            _ROUNDED,
            *((_CUT,) if len(cell.query) > WRITTEN_OUT and not full else ()),
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


# Explain one attention cell of a trained model in six steps, from the three vectors to the sum.

_ATTENTIONS = {
    ("encoder", "self"): msg("Encoder self-attention"),
    ("decoder", "self"): msg("Masked decoder self-attention"),
    ("decoder", "cross"): msg("Cross-attention of the decoder"),
}
_INPUTS = {
    "embedding": msg("In this first layer, x is made from the embedding of the token and its positional encoding."),
    "bare_embedding": msg("In this first layer, x is made from the embedding of the token."),
    "below": msg("x comes from layer {below}, right below this one."),
    "cross": msg(
        "x comes from the masked self-attention of the same layer; k and v are made from the encoder's output."
    ),
}
_TURNS = {
    "rotary": msg("q and k are then rotated by the position of their token (rotary positions)."),
    "bilinear": msg("q is then multiplied by one more trained matrix (bilinear score)."),
}
_CROSS = msg("The queries come from the translation, the keys and values from the encoder's output for the sentence.")
_ONWARD = {"feed_forward": msg("to the feed-forward network"), "cross_attention": msg("to the cross-attention")}
DROWNED = 0.001
"""Weight below which a value has next to no part in the sum."""


def render_six_steps(
    traced: ModelTrace, sentence: str, target: str | None, query_tokens: Sequence[str], *, full: bool = False
) -> Explanation:
    """Return the explanation of `traced`, a cell of a model that read `sentence` (and, in a decoder, `target`)."""
    trace = traced.trace
    cross = traced.kind == "cross"
    facts = _facts(traced)
    introduction = [msg("Sentence: “{sentence}”", sentence)]
    introduction += [msg("Translation that the decoder reads: “{target}”", target)] if target is not None else []
    introduction += [_CROSS] if cross else []
    introduction += [
        msg("Width of the model: {model_dim}. Heads in this layer: {num_heads}, each of width {head_dim}.").fill(
            **facts
        ),
        msg("Keys: {tokens}", _numbered(trace.cell.key_tokens)),
    ]
    if cross:
        written = (*query_tokens, END)[trace.cell.query_number]
        introduction.append(msg("Queries: {tokens}", _numbered(query_tokens)))
        introduction.append(
            msg("Having read “{read}”, the decoder is about to write “{written}”.", trace.cell.query_token, written)
        )
    introduction.append(_ROUNDED)
    introduction += [_CUT] if len(traced.query_input) > WRITTEN_OUT and not full else []
    other = msg("{stack}, {kind}-attention", traced.stack, traced.kind)
    attention = _ATTENTIONS.get((traced.stack, traced.kind), other)
    return Explanation(
        title=msg("{attention}, layer {layer}, head {head}: “{query}” in six steps").fill(attention=attention, **facts),
        introduction=tuple(introduction),
        vectors=None,
        steps=(
            _cell_vectors(traced, full),
            _cell_scores(trace, full),
            _scaling(trace, facts),
            _softmax(trace),
            _weighting(trace, full),
            _total(traced, full),
        ),
        ending=(_onward(traced),),
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


def _cell_vectors(traced: ModelTrace, full: bool) -> Step:
    cell = traced.trace.cell
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
    sentence = msg(
        "Three trained matrices WQ, WK and WV make three vectors of {head_dim} numbers for each "
        "token: a query q, a key k and a value v. For “{query}”, x with {model_dim} numbers "
        "becomes q."
    )
    facts = _facts(traced)
    texts = (
        sentence.fill(**facts),
        _INPUTS[origin].fill(**facts),
        f"x = {vector(traced.query_input, full=full)}",
        *(_TURNS[turn] for turn in traced.turns),
        joined(" = ", (_formula(traced), vector(cell.query, full=full))),
    )
    columns = (Column("#", numeric=True), Column(msg("token")), Column(msg("key k")), Column(msg("value v")))
    return Step(msg("Step 1. Query, key and value"), texts, Table(columns, rows))


def _formula(traced: ModelTrace) -> str:
    if traced.turns:
        return "q"
    return msg("q = x·WQ + bQ") if traced.has_bias else "q = x·WQ"


def _cell_scores(trace: Trace, full: bool) -> Step:
    cell = trace.cell
    rows = tuple(
        (token, _written_score(cell, key, full), fixed(score))
        for token, key, score in zip(cell.key_tokens, cell.keys, trace.scores.tolist(), strict=True)
    )
    sentence = msg("The query of “{query}” scores every token: the dot product of q with the key of that token.")
    terms = msg("q·k, term by term")
    if cell.score_vector is not None:
        sentence = msg(
            "The query of “{query}” scores every token with the additive score: add q and the key of "
            "that token, take tanh, multiply by the trained vector v and add up."
        )
        terms = msg("v·tanh(q + k), term by term")
    columns = (Column(msg("token")), Column(terms), Column(msg("score"), numeric=True))
    return Step(msg("Step 2. Scores"), (sentence.fill(query=cell.query_token),), Table(columns, rows))


def _written_score(cell: Cell, key: Array, full: bool) -> str:
    if cell.score_vector is not None:
        return additive_score(cell.score_vector, cell.query, key, full=full)
    return dot_product(cell.query, key, full=full)


def _scaling(trace: Trace, facts: dict[str, str | int]) -> Step:
    cell = trace.cell
    hidden = int((~trace.allowed).sum())
    divided = math.isclose(cell.beta, len(cell.query) ** -0.5)
    operation = f"/ {facts['root']}" if divided else f"· {facts['beta']}"
    texts = [
        msg(
            "Each score is divided by √{head_dim} = {root}, the square root of the key's width (that "
            "is, multiplied by β = {beta}). This keeps the softmax from becoming too sharp."
        ).fill(**facts)
        if divided
        else msg("Each score is multiplied by β = {beta}, the inverse temperature.").fill(**facts)
    ]
    columns = [
        (msg("token"), list(cell.key_tokens)),
        (msg("score"), [f"{fixed(score)} {operation}" for score in trace.scores.tolist()]),
        (msg("score × β"), [fixed(score) for score in trace.scaled.tolist()]),
    ]
    if cell.bias is not None:
        texts.append(msg("Then the position of each token relative to “{query}” adds its share.").fill(**facts))
        columns.append((msg("position"), [fixed(share) for share in cell.bias.tolist()]))
        columns.append((msg("with position"), [fixed(score) for score in trace.biased.tolist()]))
    if hidden:
        texts.append(
            msg("The mask then hides {count} of {total} tokens from “{query}”; their weight is 0.").fill(
                count=hidden, total=len(trace.allowed), **facts
            )
        )
        seen = [
            fixed(score) if allowed else msg("masked")
            for score, allowed in zip(trace.biased.tolist(), trace.allowed, strict=True)
        ]
        columns.append((msg("after the mask"), seen))
    headings = tuple(Column(heading, numeric=index > 0) for index, (heading, _) in enumerate(columns))
    return Step(
        msg("Step 3. Scaling"), tuple(texts), Table(headings, tuple(zip(*(cells for _, cells in columns), strict=True)))
    )


def _softmax(trace: Trace) -> Step:
    sentence = msg(
        "The choice is hard: all weight goes to the highest score (the first, on a tie), none to the others."
        if trace.cell.hard
        else "Take the exponential of each scaled score and divide it by the sum of all exponentials. "
        "The weights are positive and sum to 1."
    )
    if not trace.allowed.any():
        texts: tuple[str, ...] = (msg("Every token is masked: all weights are 0, and so is the result."),)
    else:
        texts = (sentence,) if trace.cell.hard else (sentence, *shift_note(trace))
    table = softmax_table(trace, msg("token"))
    if trace.cell.hard:
        # no exponential is taken
        kept = (0, 1, 4)
        rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
        table = Table(tuple(table.columns[index] for index in kept), rows)
    return Step(msg("Step 4. Choice" if trace.cell.hard else "Step 4. Softmax"), texts, table)


def _weighting(trace: Trace, full: bool) -> Step:
    cell = trace.cell
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
    after = (
        msg("Drowned here, with a weight below 0.001: {tokens}.", ", ".join(drowned))
        if drowned
        else msg("No token has drowned here: every weight is at least 0.001.")
    )
    sentence = msg(
        "Each value is multiplied by its weight: the tokens that matter keep their values, the others drown."
    )
    weight, value = Column(msg("weight"), numeric=True), Column(msg("value v"))
    columns = (Column(msg("token")), weight, value, Column(msg("weight × value")))
    return Step(
        msg("Step 5. Weighted values"), (sentence,), Table(columns, rows), (after,) if trace.allowed.any() else ()
    )


def _total(traced: ModelTrace, full: bool) -> Step:
    sentence = msg("The weighted values are added up: z, the output of this head for “{query}”.")
    texts = (
        sentence.fill(query=traced.trace.cell.query_token),
        f"z = {vector(traced.trace.total, full=full)}",
        msg("The model's own output of this head, computed in float32, differs from z by at most {difference}.").fill(
            f"{traced.difference:.1e}"
        ),
    )
    return Step(msg("Step 6. Sum"), texts)


def _onward(traced: ModelTrace) -> str:
    to_cross = traced.stack == "decoder" and traced.kind == "self"
    onward = _ONWARD["cross_attention" if to_cross else "feed_forward"]
    return msg(
        "All {num_heads} heads do this, each with its own matrices. Their z, side by side "
        "({joined} numbers), times the matrix WO ({joined} × {model_dim}) are the output of the "
        "attention, which is added to the input of the sub-layer (residual connection) and "
        "normalised on its way {onward}."
    ).fill(**_facts(traced), joined=traced.num_heads * len(traced.trace.total), onward=onward)


def _numbered(tokens: Sequence[str]) -> str:
    return " ".join(f"{number}:{token}" for number, token in enumerate(tokens, start=1))


def word_step(traced: ModelTrace, read: str) -> Step:
    """Return a seventh step; `read` is the text of the keys, as the user wrote it."""
    tokens, weights = traced.trace.cell.key_tokens, traced.trace.weights
    words = Words.of(tokens, read, spaced=has_spaces(tokens))
    rows = tuple(
        (name, " ".join(token for token, is_member in zip(tokens, members, strict=True) if is_member), fixed(weight))
        for name, members, weight in zip(words.names, words.members, words.members @ weights, strict=True)
    )
    columns = (Column(msg("word")), Column(msg("tokens")), Column(msg("weight"), numeric=True))
    return Step(
        msg("7. The same by word"),
        (msg("A word has the weights of all its tokens; they still sum to 1."),),
        Table(columns, rows, ("", msg("sum"), fixed(float(weights.sum())))),
    )
