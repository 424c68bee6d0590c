"""Measure the length and sentences of a translator's training lines, which limit what it reads in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dikkat.data.corpus import Lengths, length_counts
from dikkat_runtime.text.sentences import split_sentences

_USUAL = 99.9
"""Percentage of the lines that are no longer than is usual."""
_EXAMINED = 2_000
"""Lines whose sentences are counted, evenly spread over the training data."""


def source_profile(lengths: Lengths, texts: Sequence[str], language: str) -> dict[str, Any]:
    """Return the profile of the source side for `config.json`: tokens of its lines, and sentences."""
    chosen = np.unique(np.linspace(0, len(texts) - 1, _EXAMINED).astype(int)).tolist()
    several = sum(len(split_sentences(texts[index], language)) > 1 for index in chosen)
    counts = length_counts(lengths)
    # as np.percentile finds it by its method "higher", of all lengths in their order
    usual = np.ceil((len(lengths) - 1) * (_USUAL / 100))
    return {
        "longest": len(counts) - 1,
        "usual": int(np.searchsorted(np.cumsum(counts), usual, side="right")),
        "several_sentences": several / len(chosen),
    }
