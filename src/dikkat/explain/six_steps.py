"""One attention cell of a trained model told in six steps, from the three vectors to the sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dikkat.explain.digits import WRITTEN_OUT, additive_score, dot_product, fixed, vector
from dikkat.explain.sentence_maps import END
from dikkat.explain.softmax_table import shift_note, softmax_table
from dikkat.explain.story import Column, Step, Story, Table
from dikkat.explain.trace import Array, Cell, ModelTrace, Trace
from dikkat.explain.wording import Wording

DROWNED = 0.001
"""Below this weight a value has next to no part in the sum."""


def tell_six_steps(
    found: ModelTrace,
    sentence: str,
    target: str | None,
    query_tokens: Sequence[str],
    wording: Wording,
    *,
    full: bool = False,
) -> Story:
    """The story of `found`, a cell of a model that read `sentence` (and, in a decoder, `target`)."""
    text, trace = wording.six, found.trace
    cross = found.kind == "cross"
    facts = _facts(found)
    introduction = [text.sentence.format(sentence=sentence)]
    introduction += [text.target.format(target=target)] if target is not None else []
    introduction += [text.cross] if cross else []
    introduction += [text.model.format(**facts), text.tokens.format(tokens=_numbered(trace.cell.key_tokens))]
    if cross:
        written = (*query_tokens, END)[trace.cell.query_number]
        introduction.append(text.queries.format(tokens=_numbered(query_tokens)))
        introduction.append(text.reading.format(read=trace.cell.query_token, written=written))
    introduction.append(wording.rounding)
    introduction += [wording.shortened] if len(found.query_input) > WRITTEN_OUT and not full else []
    attention = text.attentions.get((found.stack, found.kind), f"{found.stack}, {found.kind}-attention")
    return Story(
        title=text.title.format(attention=attention, **facts),
        introduction=tuple(introduction),
        vectors=None,
        steps=(
            _vectors(found, wording, full),
            _scores(trace, wording, full),
            _scaling(trace, wording, facts),
            _softmax(trace, wording),
            _weighting(trace, wording, full),
            _total(found, wording, full),
        ),
        ending=(_onward(found, wording),),
    )


def _facts(found: ModelTrace) -> dict[str, str | int]:
    cell = found.trace.cell
    return {
        "query": cell.query_token,
        "layer": found.layer + 1,
        "head": found.head + 1,
        "num_heads": found.num_heads,
        "head_dim": len(cell.query),
        "model_dim": len(found.query_input),
        "root": fixed(math.sqrt(len(cell.query))),
        "beta": fixed(cell.beta),
        "below": found.layer,
    }


def _vectors(found: ModelTrace, wording: Wording, full: bool) -> Step:
    cell, head = found.trace.cell, wording.headings
    if found.kind == "cross":
        origin = "cross"
    elif found.layer:
        origin = "below"
    else:
        origin = "embedding" if found.positions_added else "bare_embedding"
    rows = tuple(
        (str(number), token, vector(key, full=full), vector(value, full=full))
        for number, (token, key, value) in enumerate(zip(cell.key_tokens, cell.keys, cell.values, strict=True), start=1)
    )
    title, sentence = wording.six.vectors
    facts = _facts(found)
    texts = (
        sentence.format(**facts),
        wording.six.inputs[origin].format(**facts),
        f"x = {vector(found.query_input, full=full)}",
        *(wording.six.turns[turn] for turn in found.turns),
        f"{_formula(found)} = {vector(cell.query, full=full)}",
    )
    columns = (Column("#", numeric=True), Column(head.token), Column(head.key), Column(head.value))
    return Step(title, texts, Table(columns, rows))


def _formula(found: ModelTrace) -> str:
    if found.turns:
        return "q"
    return "q = x·WQ + bQ" if found.has_bias else "q = x·WQ"


def _scores(trace: Trace, wording: Wording, full: bool) -> Step:
    cell, head = trace.cell, wording.headings
    rows = tuple(
        (token, _written_score(cell, key, full), fixed(score))
        for token, key, score in zip(cell.key_tokens, cell.keys, trace.scores.tolist(), strict=True)
    )
    title, sentence = wording.six.scores
    terms = head.products
    if cell.score_vector is not None:
        sentence, terms = wording.six.additive, head.additive
    columns = (Column(head.token), Column(terms), Column(head.score, numeric=True))
    return Step(title, (sentence.format(query=cell.query_token),), Table(columns, rows))


def _written_score(cell: Cell, key: Array, full: bool) -> str:
    if cell.score_vector is not None:
        return additive_score(cell.score_vector, cell.query, key, full=full)
    return dot_product(cell.query, key, full=full)


def _scaling(trace: Trace, wording: Wording, facts: dict[str, str | int]) -> Step:
    cell, head, text = trace.cell, wording.headings, wording.six
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
    headings = tuple(Column(heading, numeric=place > 0) for place, (heading, _) in enumerate(columns))
    return Step(
        text.scaling[0], tuple(texts), Table(headings, tuple(zip(*(cells for _, cells in columns), strict=True)))
    )


def _softmax(trace: Trace, wording: Wording) -> Step:
    title, sentence = wording.six.hard if trace.cell.hard else wording.six.softmax
    if not trace.allowed.any():
        texts: tuple[str, ...] = (wording.six.all_masked,)
    else:
        texts = (sentence,) if trace.cell.hard else (sentence, *shift_note(trace, wording))
    table = softmax_table(trace, wording, wording.headings.token)
    if trace.cell.hard:
        # no exponential is taken
        kept = (0, 1, 4)
        rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
        table = Table(tuple(table.columns[place] for place in kept), rows)
    return Step(title, texts, table)


def _weighting(trace: Trace, wording: Wording, full: bool) -> Step:
    cell, head, text = trace.cell, wording.headings, wording.six
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


def _total(found: ModelTrace, wording: Wording, full: bool) -> Step:
    title, sentence = wording.six.total
    texts = (
        sentence.format(query=found.trace.cell.query_token),
        f"z = {vector(found.trace.total, full=full)}",
        wording.six.check.format(difference=f"{found.difference:.1e}"),
    )
    return Step(title, texts)


def _onward(found: ModelTrace, wording: Wording) -> str:
    to_cross = found.stack == "decoder" and found.kind == "self"
    onward = wording.six.onward["cross_attention" if to_cross else "feed_forward"]
    joined = found.num_heads * len(found.trace.total)
    return wording.six.heads.format(**_facts(found), joined=joined, onward=onward)


def _numbered(tokens: Sequence[str]) -> str:
    return " ".join(f"{number}:{token}" for number, token in enumerate(tokens, start=1))
