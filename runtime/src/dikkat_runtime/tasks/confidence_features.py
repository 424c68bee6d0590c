"""Features of a translation for its confidence: probabilities, margins, and shapes of the attention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.engine.forced_scores import ForcedScores

SENTENCE_FEATURES = (
    "mean log-probability", "lowest log-probability", "sum of log-probabilities", "mean margin", "lowest margin",
    "mean entropy", "highest entropy", "attention entropy", "uncovered source", "most covered", "length ratio",
    "share of unlikely tokens", "source length",
)  # fmt: skip
WORD_FEATURES = (
    "lowest log-probability", "mean log-probability", "lowest margin", "highest entropy", "attention entropy",
    "attention peak", "coverage", "log-probability before", "log-probability behind", "sentence", "length",
)  # fmt: skip
_WORD = re.compile("[\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]|[^\\s\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]+")
_UNLIKELY = -2.0
"""Nats, below which a token is unlikely."""
_FLOOR = -20.0


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a translation, from the character `start` to `end`."""

    text: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Return the words between spaces; in scripts without spaces, the characters."""
    return [Word(match[0], *match.span()) for match in _WORD.finditer(text)]


def sentence_features(scores: ForcedScores) -> list[float]:
    """Return the numbers that `SENTENCE_FEATURES` names."""
    log_p = np.maximum(scores.log_probabilities, _FLOOR)
    margins = np.clip(scores.margins, _FLOOR, -_FLOOR)
    coverage = scores.attention[:, : scores.source_tokens].sum(axis=0)
    return [
        float(log_p.mean()),
        float(log_p.min()),
        float(log_p.sum()),
        float(margins.mean()),
        float(margins.min()),
        float(scores.entropies.mean()),
        float(scores.entropies.max()),
        float(_entropy(scores.attention).mean()),
        float(np.maximum(0, 1 - coverage).mean()) if len(coverage) else 0.0,
        float(coverage.max()) if len(coverage) else 0.0,
        abs(float(np.log(len(log_p) / scores.attention.shape[1]))),
        float((log_p < _UNLIKELY).mean()),
        float(np.log(scores.attention.shape[1])),
    ]


def word_features(scores: ForcedScores, words: Sequence[Word], spans: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Return for each word the numbers that `WORD_FEATURES` names; `spans` are those of the tokens in the text."""
    log_p = np.maximum(scores.log_probabilities, _FLOOR)
    entropy, coverage = _entropy(scores.attention), scores.attention.sum(axis=0)
    mean = float(log_p.mean())
    rows = []
    for word in words:
        own = [n for n, (start, end) in enumerate(spans) if start < word.end and max(end, start + 1) > word.start] or [
            0
        ]
        first, last = own[0], own[-1]
        looked_at = scores.attention[own].mean(axis=0)
        rows.append(
            [
                float(log_p[own].min()),
                float(log_p[own].mean()),
                float(np.clip(scores.margins[own].min(), _FLOOR, -_FLOOR)),
                float(scores.entropies[own].max()),
                float(entropy[own].mean()),
                float(looked_at.max()),
                float(coverage[int(looked_at.argmax())]),
                float(log_p[first - 1]) if first else 0.0,
                float(log_p[last + 1]) if last + 1 < len(log_p) else 0.0,
                mean,
                float(len(own)),
            ]
        )
    return rows


def _entropy(attention: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy (T,) of rows (T, S), as a share of the highest possible."""
    highest = np.log(max(2, attention.shape[1]))
    safe = np.maximum(attention, 1e-12)
    return np.asarray(-(safe * np.log(safe)).sum(axis=1) / highest)
