"""The sentences and headings of an explanation; every language fills them in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headings:
    """Hold headings of columns and rows."""

    word: str
    token: str
    vector: str
    products: str
    score: str
    additive: str
    scaled: str
    bias: str
    biased: str
    mask: str
    masked: str
    exponential: str
    exponential_shifted: str
    quotient: str
    weight: str
    key: str
    value: str
    weighted: str
    sum: str


@dataclass(frozen=True, slots=True)
class ThreeSteps:
    """Hold the texts about typed words: scores, weights, context."""

    title: str
    introduction: str
    left_out: str
    scores: tuple[str, str]
    """Heading and text, as for every step."""
    weights: tuple[str, str]
    beta: str
    context: tuple[str, str]
    summary: str


@dataclass(frozen=True, slots=True)
class SixSteps:
    """Hold the texts about one cell of a trained model."""

    title: str
    attentions: dict[tuple[str, str], str]
    """Name of the attention of a stack and kind."""
    sentence: str
    target: str
    cross: str
    model: str
    tokens: str
    queries: str
    reading: str
    """What a row of cross-attention is about to write."""
    vectors: tuple[str, str]
    inputs: dict[str, str]
    """Where the layer's input comes from."""
    turns: dict[str, str]
    """Operations on q after its projection."""
    scores: tuple[str, str]
    additive: str
    scaling: tuple[str, str]
    free_scaling: str
    """Replaces the text of `scaling`, where β is not the usual one."""
    bias: str
    masking: str
    softmax: tuple[str, str]
    hard: tuple[str, str]
    """Replaces `softmax`."""
    all_masked: str
    weighting: tuple[str, str]
    drowned: str
    none_drowned: str
    total: tuple[str, str]
    check: str
    heads: str
    onward: dict[str, str]
    """What comes after the sub-layer, by stack and kind."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Hold all texts of one language."""

    headings: Headings
    three: ThreeSteps
    six: SixSteps
    rounding: str
    shortened: str
    shifted: str
