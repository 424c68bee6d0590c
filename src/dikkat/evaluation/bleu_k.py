"""BLEU of one sentence with n-grams up to k: the small score of the textbook example.

For a score to report, use `score_translations`.
"""

from __future__ import annotations

import math
from collections import Counter


def bleu_k(prediction: str, reference: str, k: int = 2) -> float:
    """Return exp(min(0, 1 - R/P)) · Π_{n=1..k} p_n^(1/2^n) over words split at white space, from 0 to 1.

    P and R are the lengths in words, p_n the share of the prediction's n-grams found in the reference, each of the
    reference's used once. A prediction shorter than k words is scored up to its own length; an empty one gets 0,
    or 1 against an empty reference. Raises `ValueError` for k < 1. Source: Zhang et al., Dive into Deep Learning,
    section 10.7.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    predicted, expected = prediction.split(), reference.split()
    if not predicted:
        return float(not expected)
    score = math.exp(min(0.0, 1.0 - len(expected) / len(predicted)))
    for n in range(1, min(k, len(predicted)) + 1):
        score *= _precision(predicted, expected, n) ** 0.5**n
    return score


def _precision(predicted: list[str], expected: list[str], n: int) -> float:
    matches = _ngrams(predicted, n) & _ngrams(expected, n)
    return matches.total() / (len(predicted) - n + 1)


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))
