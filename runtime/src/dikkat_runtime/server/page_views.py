"""Pack the data that the page draws: attention by token and word, small enough to be sent while somebody types."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from dikkat_runtime.documents.words import Span, word_shares, word_spans
from dikkat_runtime.tasks.aligner import CrossAttention
from dikkat_runtime.tasks.confidence import Confidence


def shown_attention(attention: CrossAttention) -> dict[str, Any]:
    """Return tokens of both sides, the word of each, and all weights: bytes (L, H, T, S) in base64, 255 for 1."""
    layers, heads = attention.weights.shape[:2]
    weights = np.rint(255 * attention.weights).astype(np.uint8)
    return {
        "source": _side(attention.source, attention.source_spans),
        "target": _side(attention.target, attention.target_spans),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(weights.tobytes()).decode(),
    }


def shown_confidence(target: str, confidence: Confidence) -> dict[str, Any]:
    """Return probability of the whole and of each word of a translation, with the span of the word, and its faults."""
    words, position = [], 0
    for word in confidence.words:
        start = target.find(word.text, position)
        if start >= 0:
            position = start + len(word.text)
            words.append({"start": start, "end": position, "probability": word.probability})
    return {"probability": confidence.probability, "words": words, "flags": list(confidence.flags)}


def _side(text: str, tokens: Sequence[Span]) -> dict[str, Any]:
    """Return the characters of each token, the words, and the number of the word of each token."""
    words = word_spans(text)
    number = [0] * len(tokens)
    for word, shares in enumerate(word_shares(words, tokens)):
        for token in shares:
            number[token] = word
    return {
        "tokens": [text[start:end] for start, end in tokens],
        "words": [text[start:end] for start, end in words],
        "word_of": number,
    }
