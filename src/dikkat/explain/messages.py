"""The sentences and headings of an explanation in English, of which a catalog has the other languages."""

from __future__ import annotations

from dataclasses import dataclass, field

from dikkat.explain.languages import spoken
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import LANGUAGES


@dataclass(frozen=True, slots=True)
class Headings:
    """Hold headings of columns and rows."""

    word: str = "word"
    token: str = "token"
    vector: str = "vector"
    products: str = "q·k, term by term"
    score: str = "score"
    additive: str = "v·tanh(q + k), term by term"
    scaled: str = "score × β"
    bias: str = "position"
    biased: str = "with position"
    mask: str = "after the mask"
    masked: str = "masked"
    exponential: str = "exponential"
    exponential_shifted: str = "exponential of (score − {largest})"
    quotient: str = "exponential / sum"
    weight: str = "weight"
    key: str = "key k"
    value: str = "value v"
    weighted: str = "weight × value"
    sum: str = "sum"


@dataclass(frozen=True, slots=True)
class ThreeSteps:
    """Hold the texts about typed words: scores, weights, context."""

    title: str = "“{sentence}”: self-attention of “{query}” in three steps"
    introduction: str = "Each word is its own query, key and value: there are no trained matrices. Width: {width}."
    left_out: str = "{tokens} has no vector and is left out."
    scores: tuple[str, str] = (
        "Step 1. Scores",
        "The score of a word is the dot product of the query “{query}” and the key of that word: "
        "multiply number by number, then add.",
    )
    """Heading and text, as for every step."""
    weights: tuple[str, str] = (
        "Step 2. Weights",
        "Softmax: take the exponential of each score and divide it by the sum of all exponentials. "
        "The weights are positive and sum to 1.",
    )
    beta: str = "Before that, each score is multiplied by β = {beta}."
    context: tuple[str, str] = (
        "Step 3. Context",
        "Multiply each value by its weight and add them up: the context vector of “{query}”.",
    )
    summary: str = "In short: scores {scores} · weights {weights} · context {context}"


@dataclass(frozen=True, slots=True)
class SixSteps:
    """Hold the texts about one cell of a trained model."""

    title: str = "{attention}, layer {layer}, head {head}: “{query}” in six steps"
    attentions: dict[tuple[str, str], str] = field(
        default_factory=lambda: {
            ("encoder", "self"): "Encoder self-attention",
            ("decoder", "self"): "Masked decoder self-attention",
            ("decoder", "cross"): "Cross-attention of the decoder",
        }
    )
    """Name of the attention of a stack and kind."""
    sentence: str = "Sentence: “{sentence}”"
    target: str = "Translation that the decoder reads: “{target}”"
    cross: str = (
        "The queries come from the translation, the keys and values from the encoder's output for the sentence."
    )
    model: str = "Width of the model: {model_dim}. Heads in this layer: {num_heads}, each of width {head_dim}."
    tokens: str = "Keys: {tokens}"
    queries: str = "Queries: {tokens}"
    reading: str = "Having read “{read}”, the decoder is about to write “{written}”."
    """What a row of cross-attention is about to write."""
    vectors: tuple[str, str] = (
        "Step 1. Query, key and value",
        "Three trained matrices WQ, WK and WV make three vectors of {head_dim} numbers for each token: "
        "a query q, a key k and a value v. For “{query}”, x with {model_dim} numbers becomes q.",
    )
    inputs: dict[str, str] = field(
        default_factory=lambda: {
            "embedding": "In this first layer, x is made from the embedding of the token and its positional encoding.",
            "bare_embedding": "In this first layer, x is made from the embedding of the token.",
            "below": "x comes from layer {below}, right below this one.",
            "cross": "x comes from the masked self-attention of the same layer; k and v are made from the encoder's "
            "output.",
        }
    )
    """Where the layer's input comes from."""
    turns: dict[str, str] = field(
        default_factory=lambda: {
            "rotary": "q and k are then rotated by the position of their token (rotary positions).",
            "bilinear": "q is then multiplied by one more trained matrix (bilinear score).",
        }
    )
    """Operations on q after its projection."""
    scores: tuple[str, str] = (
        "Step 2. Scores",
        "The query of “{query}” scores every token: the dot product of q with the key of that token.",
    )
    additive: str = (
        "The query of “{query}” scores every token with the additive score: add q and the key of that token, "
        "take tanh, multiply by the trained vector v and add up."
    )
    scaling: tuple[str, str] = (
        "Step 3. Scaling",
        "Each score is divided by √{head_dim} = {root}, the square root of the key's width "
        "(that is, multiplied by β = {beta}). This keeps the softmax from becoming too sharp.",
    )
    free_scaling: str = "Each score is multiplied by β = {beta}, the inverse temperature."
    """Replaces the text of `scaling`, where β is not the usual one."""
    bias: str = "Then the position of each token relative to “{query}” adds its share."
    masking: str = "The mask then hides {count} of {total} tokens from “{query}”; their weight is 0."
    softmax: tuple[str, str] = (
        "Step 4. Softmax",
        "Take the exponential of each scaled score and divide it by the sum of all exponentials. "
        "The weights are positive and sum to 1.",
    )
    hard: tuple[str, str] = (
        "Step 4. Choice",
        "The choice is hard: all weight goes to the highest score (the first, on a tie), none to the others.",
    )
    """Replaces `softmax`."""
    all_masked: str = "Every token is masked: all weights are 0, and so is the result."
    weighting: tuple[str, str] = (
        "Step 5. Weighted values",
        "Each value is multiplied by its weight: the tokens that matter keep their values, the others drown.",
    )
    drowned: str = "Drowned here, with a weight below 0.001: {tokens}."
    none_drowned: str = "No token has drowned here: every weight is at least 0.001."
    total: tuple[str, str] = (
        "Step 6. Sum",
        "The weighted values are added up: z, the output of this head for “{query}”.",
    )
    check: str = "The model's own output of this head, computed in float32, differs from z by at most {difference}."
    heads: str = (
        "All {num_heads} heads do this, each with its own matrices. Their z, side by side ({joined} numbers), "
        "times the matrix WO ({joined} × {model_dim}) are the output of the attention, which is added to the input of "
        "the sub-layer (residual connection) and normalised on its way {onward}."
    )
    onward: dict[str, str] = field(
        default_factory=lambda: {
            "feed_forward": "to the feed-forward network",
            "cross_attention": "to the cross-attention",
        }
    )
    """What comes after the sub-layer, by stack and kind."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Hold all texts of one language."""

    headings: Headings = Headings()
    three: ThreeSteps = ThreeSteps()
    six: SixSteps = SixSteps()
    rounding: str = "Every number is computed with all its digits and rounded only where it is printed."
    shortened: str = "“…” stands for numbers that are computed with but not shown; --full shows them all."
    shifted: str = (
        "The scores are large, so the largest, {largest}, is first subtracted from each: "
        "no weight changes by that, and no exponential overflows."
    )


def messages_for(language: str) -> Messages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in LANGUAGES:
        raise UsageError(f'there is no explanation in "{language}"; choose from {", ".join(LANGUAGES)}')
    return spoken(Messages(), language)
