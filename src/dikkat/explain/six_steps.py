"""Explain one attention cell of a trained model in six steps, from the three vectors to the sum."""

import math
from collections.abc import Sequence

from dikkat.explain.attention_map import END, Words, has_spaces
from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.trace import Array, Cell, ModelTrace, Trace
from dikkat.explain.written_numbers import (
    CUT,
    ROUNDED,
    WRITTEN_OUT,
    additive_score,
    dot_product,
    fixed,
    shift_note,
    softmax_table,
    vector,
)
from dikkat_runtime.errors import joined, msg

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
    introduction.append(ROUNDED)
    introduction += [CUT] if len(traced.query_input) > WRITTEN_OUT and not full else []
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
