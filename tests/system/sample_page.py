"""A page without a model: weights by chance, a beam search and translations made up by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat.explain.explorer.document import (
    Beam,
    Candidate,
    HeadOff,
    MapKind,
    Maps,
    Page,
    PageSentence,
    Saliency,
    TokenizedText,
    Weights,
)
from dikkat.explain.head_analysis.importance import attention_rollout

KINDS: tuple[MapKind, ...] = ("encoder-self", "decoder-self", "cross")


def random_weights(generator: np.random.Generator, heads: int, queries: int, keys: int, *, causal: bool) -> Weights:
    """(H, T, S): rows that sum to one and lean towards a few keys."""
    logits = generator.normal(scale=2.0, size=(heads, queries, keys))
    exponentials = np.exp(logits) * (np.tri(queries, keys) if causal else 1.0)
    return (exponentials / exponentials.sum(axis=-1, keepdims=True)).astype(np.float32)


def sample_text(tokens: Sequence[str]) -> TokenizedText:
    """Tokens of which "▁" or a special name starts a word."""
    numbers: list[int] = []
    words: list[str] = []
    for token in tokens:
        if token.startswith(("▁", "<")) or not words or words[-1].startswith("<"):
            words.append(token.removeprefix("▁"))
        else:
            words[-1] += token
        numbers.append(len(words) - 1)
    return TokenizedText(
        " ".join(word for word in words if word[:1] != "<"), tuple(tokens), tuple(numbers), tuple(words)
    )


def sample_sentence(
    source: Sequence[str],
    target: Sequence[str],
    *,
    layers: int = 2,
    heads: int = 3,
    seed: int = 1,
    beam: Beam | None = None,
    heads_off: Sequence[HeadOff] = (),
    score: float | None = -0.25,
) -> PageSentence:
    """`source` with `<eos>`; `target` with `<bos>` and `<eos>`."""
    generator = np.random.default_rng(seed)
    reads, rows = len(source), len(target) - 1
    shapes = {"encoder-self": (reads, reads), "decoder-self": (rows, rows), "cross": (rows, reads)}
    maps: Maps = {
        kind: [random_weights(generator, heads, *shapes[kind], causal=kind == "decoder-self") for _ in range(layers)]
        for kind in KINDS
    }
    return PageSentence(
        source=sample_text(source),
        target=sample_text(target),
        score=score,
        maps=maps,
        rollout={
            kind: [item.astype(np.float32)[None] for item in attention_rollout(maps[kind])]
            for kind in KINDS
            if kind != "cross"
        },
        beam=beam,
        heads_off=heads_off,
        saliency=Saliency(*random_weights(generator, 2, rows, reads, causal=False)),
        is_given=score is None,
    )


SOURCE = ("▁The", "▁ani", "mal", "▁is", "▁tired", "<eos>")
TARGET = ("<bos>", "▁Das", "▁Tier", "▁ist", "▁mü", "de", "<eos>")


def sample_beam() -> Beam:
    """Two places; the winner stands second after the second step."""
    tokens = TARGET[1:]
    steps = [[Candidate(0, tokens[0], -0.1, -0.1, "lives"), Candidate(0, "▁Ein", -2.0, -2.0, "lives")]]
    steps.append([Candidate(0, "▁Vieh", -0.5, -0.2, "lives"), Candidate(0, tokens[1], -0.6, -0.3, "lives")])
    steps.append([Candidate(1, tokens[2], -0.7, -0.2, "lives"), Candidate(0, "<eos>", -3.0, -0.9, "ends")])
    steps[-1].append(Candidate(0, "▁war", -4.0, -1.1, "lives"))
    steps.append([Candidate(0, tokens[3], -0.8, -0.2, "lives"), Candidate(1, "▁alt", -5.0, -1.0, "lives")])
    steps.append([Candidate(0, tokens[4], -0.9, -0.2, "lives"), Candidate(1, ".", -6.0, -1.0, "falls")])
    steps.append([Candidate(0, "<eos>", -1.0, -0.2, "ends")])
    return Beam(2, steps, [("Das Tier ist müde", [0, 1, 0, 0, 0, 0]), ("Das Vieh", [0, 0, 1])])


def sample_page(name: str = "sample", sentences: Sequence[PageSentence] | None = None) -> Page:
    """By default two sentences, the second with a forced target."""
    offs = [
        HeadOff(
            kind,
            layer,
            head,
            "Das Vieh ist alt" if (kind, layer, head) == ("cross", 1, 2) else "Das Tier ist müde",
            -0.5,
        )
        for kind in KINDS
        for layer in range(2)
        for head in range(3)
    ]
    if sentences is None:
        sentences = [
            sample_sentence(SOURCE, TARGET, beam=sample_beam(), heads_off=offs),
            sample_sentence(("▁Yes", ".", "<eos>"), ("<bos>", "▁Ja", ".", "<eos>"), seed=2, score=None),
        ]
    return Page(name, "en", "de", sentences)
