"""How much a translator reads in one piece: what its training lines were like, kept in the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.config import RunConfig
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.text.segmentation import ReadingLimits
from dikkat_runtime.text.sentences import split_sentences
from dikkat_runtime.text.tokenizer import Tokenizer

_EXAMINED = 2_000
"""Lines of which the sentences are counted, evenly spread over the training data."""
_SHARE = 0.005
"""Of training lines with several sentences; below it they are exceptions from which nothing is learned."""
_SLACK = 1.25
"""A sentence may be so much longer than the longest of the training data before it is cut."""


def source_profile(lengths: NDArray[np.int64], texts: Sequence[str], language: str) -> dict[str, Any]:
    """What the source side of the training data is like, for `config.json`: tokens of its lines, and sentences."""
    chosen = np.unique(np.linspace(0, len(texts) - 1, _EXAMINED).astype(int)).tolist()
    several = sum(len(split_sentences(texts[index], language)) > 1 for index in chosen)
    return {
        "longest": int(lengths.max()),
        "usual": int(np.percentile(lengths, 99.9, method="higher")),
        "several_sentences": several / len(chosen),
    }


def reading_limits(
    run: RunDirectory, settings: dict[str, Any], config: RunConfig, tokenizer: Tokenizer
) -> ReadingLimits:
    """The limits of a run from the profile in its `settings`; of an older run, from the corpus beside it.

    A sentence is read whole up to a quarter more tokens than the longest training line had. Several sentences are read
    together up to the 99.9th percentile of the training lines, where at least one line in 200 had several; else each is
    read alone. Raises `DataError` for a profile that is none.
    """
    profile = settings.get("data_source", {}).get("source_lines")
    if profile is None:
        profile = _profile_of_corpus(run, config, tokenizer)
    if profile is None:
        return default_limits(config)
    try:
        longest, usual, several = (profile[name] for name in ("longest", "usual", "several_sentences"))
        is_sound = 1 <= int(usual) <= int(longest) and 0 <= float(several) <= 1
    except (KeyError, TypeError, ValueError, OverflowError):
        is_sound = False
    if not is_sound:
        raise DataError(f"{run.config}: data_source.source_lines is damaged; restore it from a copy of the run")
    most = default_limits(config).longest
    return ReadingLimits(min(most, int(_SLACK * longest)), min(most, int(usual)), several >= _SHARE)


def default_limits(config: RunConfig) -> ReadingLimits:
    """The limits where nothing is known of the training lines: what `data` and the table of positions allow."""
    most = config.data.max_length
    if config.model.positions == "learned":
        # the translation of n tokens and an end mark has a place for each of its most tokens
        options = DecodingOptions()
        room = config.model.max_positions - options.max_length_offset
        most = min(most, max(1, int(room / options.max_length_factor) - 1))
    return ReadingLimits(most, most, several_sentences=True)


def _profile_of_corpus(run: RunDirectory, config: RunConfig, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """None where there is no corpus, or none that can be read: it is not needed to translate."""
    if not run.corpus.is_dir():
        return None
    try:
        corpus = Corpus.open(run.corpus, "train", vocab_size=tokenizer.vocab_size)
    except DikkatError:
        return None
    if not len(corpus):
        return None
    chosen = np.unique(np.linspace(0, len(corpus) - 1, _EXAMINED).astype(int)).tolist()
    texts = tokenizer.decode_batch([corpus.source(index).tolist() for index in chosen])
    return source_profile(corpus.source_lengths, texts, config.data.source_language)
