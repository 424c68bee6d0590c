"""Measure the length and sentences of a translator's training lines, which limit what it reads in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus, Lengths, length_counts
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.tasks.reading_limits import limits_of_profile, limits_of_run, recorded_profile
from dikkat_runtime.text.segmentation import ReadingLimits
from dikkat_runtime.text.sentences import split_sentences
from dikkat_runtime.text.tokenizer import Tokenizer

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


def reading_limits(run: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> ReadingLimits:
    """Return the limits of the run at a path from its settings; of an older run, from the corpus beside it.

    Raises `DataError` for settings that are damaged.
    """
    where = str(run / "config.json")
    limits = limits_of_run(config, where)
    if recorded_profile(config) is not None:
        return limits
    profile = _profile_of_corpus(run / "corpus", str(config["data"].get("source_language", "")), tokenizer)
    return limits if profile is None else limits_of_profile(profile, limits.longest, where)


def _profile_of_corpus(folder: Path, language: str, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """None where there is no corpus, or none that can be read: it is not needed to translate."""
    if not folder.is_dir():
        return None
    try:
        corpus = Corpus.open(folder, "train", vocab_size=tokenizer.vocab_size)
    except DikkatError:
        return None
    if not len(corpus):
        return None
    chosen = np.unique(np.linspace(0, len(corpus) - 1, _EXAMINED).astype(int)).tolist()
    texts = tokenizer.decode_batch([corpus.source(index).tolist() for index in chosen])
    return source_profile(corpus.lengths("source"), texts, language)
