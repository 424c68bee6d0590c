"""Explain what a language model is about to write: layer by layer, part by part, and against another text."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat.explain.head_analysis.circuits import attribution, logit_lens, patching
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.tasks.generator import Generator as LanguageModel

MAX_TOKENS = 200
"""Tokens at the end of a text that are read: patching restores each in each layer."""
LIKELIEST = 5


def explain_text(trained: LanguageModel, text: str, against: str | None) -> tuple[Explanation, dict[str, Any]]:
    """Return the explanation of the token that follows `text`, and all of its numbers.

    With `against`, a text of as many tokens, also show where the difference between both is kept. Of a long text the
    model reads the end. Raises `UsageError` for a model that fills in hidden tokens, and for texts that do not fit;
    `DataError` for one of less than two tokens.
    """
    model = trained.model
    if model.objective == "masked":
        raise UsageError("a model that fills in hidden tokens does not continue a text; --run needs one that does")
    ids, most = _ids(trained, text), min(MAX_TOKENS, trained.context)
    tokens = torch.tensor(ids[-most:])
    labels = trained.tokenizer.labels(ids[-most:])
    introduction = [msg("Tokens: {tokens}", " ".join(labels))]
    if len(ids) > most:
        introduction.append(msg("Of {count:,} tokens these last {most:,} are read.", len(ids), most))
        text = f"…{trained.tokenizer.decode(ids[-most:])}"

    def named(token: int) -> str:
        return str(trained.tokenizer.labels([token])[0])

    lens = logit_lens(model, tokens)
    answer = int(lens[-1, -1].argmax())
    steps = [_next(lens, named), _lens(lens, answer, named)]
    numbers: dict[str, Any] = {
        "answer": named(answer),
        "lens": lens[:, -1].exp().amax(-1).tolist(),
        "lens_answer": lens[:, -1, answer].exp().tolist(),
    }
    try:
        parts = attribution(model, tokens, answer)
    except UsageError as error:
        steps.append(Step(msg("What each part adds to the logit of “{token}”", named(answer)), (str(error),)))
    else:
        steps.append(_parts(parts, named(answer)))
        numbers |= {"logit": parts.logit, "embedding": parts.embedding, "rest": parts.rest}
        numbers |= {"heads": parts.heads.tolist(), "feed_forwards": parts.feed_forwards.tolist()}
    if against is not None:
        others = _ids(trained, against)
        if len(ids) != len(others):
            raise UsageError(
                "--against: both texts need as many tokens, but they have {count} and {other}; change single words",
                len(ids),
                len(others),
            )
        step, effects = _patched(trained, tokens, torch.tensor(others[-most:]), answer, named)
        steps.append(step)
        numbers["patching"] = effects
    title = msg("“{text}”: what the model is about to write, and why", text)
    return Explanation(title, tuple(introduction), None, tuple(steps), ()), numbers


def _ids(trained: LanguageModel, text: str) -> list[int]:
    ids = trained.tokenizer.encode(text)
    if len(ids) < 2:
        raise DataError("“{text}” is too short to be explained; give two tokens or more", text)
    return ids


def _next(lens: torch.Tensor, named: Callable[[int], str]) -> Step:
    shares, ids = lens[-1, -1].exp().topk(min(LIKELIEST, lens.shape[2]))
    rows = tuple((named(token), f"{share:.4f}") for share, token in zip(shares.tolist(), ids.tolist(), strict=True))
    columns = (Column(msg("next token")), Column(msg("probability"), numeric=True))
    return Step(msg("What may follow"), (), Table(columns, rows))


def _lens(lens: torch.Tensor, answer: int, named: Callable[[int], str]) -> Step:
    rows = []
    for layer, row in enumerate(lens[:, -1], start=1):
        best = int(row.argmax())
        rows.append((f"{layer}", named(best), f"{row[best].exp():.4f}", f"{row[answer].exp():.4f}"))
    columns = (Column(msg("layer")), Column(msg("would write")), *(
        Column(heading, numeric=True) for heading in (msg("probability"), msg("of “{token}”", named(answer)))
    ))  # fmt: skip
    text = msg("The logit lens: what the model would write if this layer were its last.")
    return Step(msg("Layer by layer"), (text,), Table(columns, tuple(rows)))


def _parts(parts: Any, answer: str) -> Step:
    heads = [msg("head {head}", head + 1) for head in range(parts.heads.shape[1])]
    columns = (Column(msg("layer")), *(Column(name, numeric=True) for name in (*heads, msg("feed-forward"))))
    rows = tuple(
        (f"{layer}", *(f"{value:+.3f}" for value in (*row, parts.feed_forwards[layer - 1])))
        for layer, row in enumerate(parts.heads, start=1)
    )
    total = msg("Embedding {embedding:+.3f}, biases {rest:+.3f}; together they give the logit {logit:.3f}.")
    return Step(
        msg("What each part adds to the logit of “{token}”", answer),
        (msg("Direct logit attribution, with the scale of the final norm held fixed."),),
        Table(columns, rows),
        (total.fill(parts.embedding, parts.rest, parts.logit),),
    )


def _patched(
    trained: LanguageModel, tokens: torch.Tensor, other: torch.Tensor, answer: int, named: Callable[[int], str]
) -> tuple[Step, list[list[float]]]:
    instead = int(logit_lens(trained.model, other)[-1, -1].argmax())
    if instead == answer:
        raise UsageError(
            "--against: both texts are continued with “{token}”; change one so that they differ", named(answer)
        )
    effects = patching(trained.model, tokens, other, (answer, instead))
    labels: Sequence[str] = trained.tokenizer.labels(tokens.tolist())
    layers = (msg("layer {layer}", layer) for layer in range(1, len(effects) + 1))
    columns = (Column(msg("token")), *(Column(layer, numeric=True) for layer in layers))
    rows = tuple(
        (label, *(f"{value:.2f}" for value in column)) for label, column in zip(labels, effects.T, strict=True)
    )
    text = msg(
        "While the model reads the other text, the input of one layer at one token is replaced by that of this text. "
        "1.00: it writes “{answer}” as much as after this text; 0.00: it goes on towards “{other}”."
    )
    heading = msg("Where the difference is kept: activation patching")
    return Step(heading, (text.fill(named(answer), named(instead)),), Table(columns, rows)), effects.tolist()
