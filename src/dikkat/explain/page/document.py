"""What a page shows, and its JSON.

Three kinds of map are told apart: "encoder-self", "decoder-self" and "cross". Layers and heads count from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dikkat.explain.page.weights import Weights, packed, packed_bytes

MapKind = Literal["encoder-self", "decoder-self", "cross"]
Maps = Mapping[MapKind, Sequence[Weights]]
"""Of each kind one (H, T, S) array a layer."""

FORMAT_VERSION = 1
BUDGET = 3_200_000
"""Bytes of maps, before base64, above which long sentences keep only the largest weights of each row."""
_LONGEST_DENSE = (320, 160, 80, 40)


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text, its tokens as they are labelled, and the word that each token belongs to."""

    text: str
    tokens: tuple[str, ...]
    """Special tokens included: a source ends with `<eos>`, a target begins with `<bos>` and ends with what follows."""
    word_numbers: tuple[int, ...]
    """For each token the number of its word, rising from 0."""
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        numbers = self.word_numbers
        steps = zip((-1, *numbers), (*numbers, len(self.words)), strict=True)
        if len(numbers) != len(self.tokens) or any(after - before not in (0, 1) for before, after in steps):
            raise ValueError(f"{len(self.tokens)} tokens need word numbers that rise from 0 to {len(self.words) - 1}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis that one step of the search considered."""

    parent: int
    """Place of the hypothesis it continues among those that live on from the step before, 0 the best."""
    token: str
    log_probability: float
    """Of the whole hypothesis, in nats."""
    score: float
    fate: Literal["lives", "ends", "falls"]


@dataclass(frozen=True, slots=True)
class Beam:
    """The search that found the target."""

    size: int
    steps: Sequence[Sequence[Candidate]]
    """Candidates of each step, best first."""
    path: Sequence[int]
    """Which candidate of each step belongs to the target."""


@dataclass(frozen=True, slots=True)
class HeadOff:
    """What the model says without one head."""

    kind: MapKind
    layer: int
    head: int
    text: str
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Saliency:
    """Two other answers to "which source token mattered for this target token": (T, S), each row summing to 1."""

    gradient: Weights
    """|gradient × input|."""
    occlusion: Weights
    """|log-probability that the target token loses when the source token is hidden|."""


@dataclass(frozen=True, slots=True, eq=False)
class PageSentence:
    """One sentence, what was made of it, and everything that can be looked at."""

    source: TokenizedText
    """S tokens."""
    target: TokenizedText
    """T + 1 tokens: row t of a decoder's map read token t and wrote token t + 1."""
    score: float | None
    """Of the target as the model's own; None for a target that was given."""
    maps: Maps
    rollout: Maps
    """Attention rollout up to each layer, as one head; see `dikkat.explain.head_analysis.rollout`."""
    beam: Beam | None
    heads_off: Sequence[HeadOff]
    saliency: Saliency | None


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """All that one HTML file holds."""

    name: str
    """Of the model."""
    source_language: str
    target_language: str
    sentences: Sequence[PageSentence]


def as_json(page: Page) -> str:
    """`page` as JSON in plain ASCII, so that half a surrogate pair is written too."""
    longest_dense = _longest_dense(page.sentences)
    content = {
        "format": FORMAT_VERSION,
        "name": page.name,
        "sourceLanguage": page.source_language,
        "targetLanguage": page.target_language,
        "sentences": [_sentence(each, longest_dense) for each in page.sentences],
    }
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _longest_dense(sentences: Sequence[PageSentence]) -> int:
    """The longest row that is stored whole."""
    shapes = [
        array.shape
        for sentence in sentences
        for maps in (sentence.maps, sentence.rollout)
        for layers in maps.values()
        for array in layers
    ]
    fitting = (limit for limit in _LONGEST_DENSE if sum(packed_bytes(shape, limit) for shape in shapes) <= BUDGET)
    return next(fitting, _LONGEST_DENSE[-1])


def _sentence(sentence: PageSentence, longest_dense: int) -> dict[str, Any]:
    saliency = sentence.saliency
    return {
        "source": _text(sentence.source),
        "target": _text(sentence.target),
        "score": _rounded(sentence.score),
        "maps": _maps(sentence.maps, longest_dense),
        "rollout": _maps(sentence.rollout, longest_dense),
        "beam": None if sentence.beam is None else _beam(sentence.beam),
        "headsOff": [
            [each.kind, each.layer, each.head, each.text, _rounded(each.score)] for each in sentence.heads_off
        ],
        "saliency": None
        if saliency is None
        else {
            "gradient": packed(saliency.gradient[None], longest_dense),
            "occlusion": packed(saliency.occlusion[None], longest_dense),
        },
    }


def _text(text: TokenizedText) -> dict[str, Any]:
    return {"text": text.text, "tokens": text.tokens, "wordNumbers": text.word_numbers, "words": text.words}


def _maps(maps: Maps, longest_dense: int) -> dict[str, list[dict[str, Any]]]:
    return {kind: [packed(weights, longest_dense) for weights in layers] for kind, layers in maps.items()}


def _beam(beam: Beam) -> dict[str, Any]:
    """A candidate is [parent, label, log-probability, score, fate]."""
    steps = [
        [[each.parent, each.token, _rounded(each.log_probability), _rounded(each.score), each.fate] for each in step]
        for step in beam.steps
    ]
    return {"size": beam.size, "steps": steps, "path": list(beam.path)}


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
