"""Translate without learning, as the baseline that a score is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_SENTENCES = 100_000
"""Distinct target sentences counted, overall and for each source sentence."""


def copy_source(sources: Sequence[str]) -> list[str]:
    """Return each source as its own translation: what names, numbers and related languages score for free."""
    return list(sources)


def most_frequent_translation(pairs: Iterable[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """Return for each source its most frequent training target, else the most frequent target of all.

    `pairs` are the training pairs, read once. A high score means that test sentences occur in training. Memory is
    bounded by the sources and `MAX_SENTENCES`, not by the training data. No pairs give empty translations.
    """
    of_source: dict[str, _Frequencies] = {source: _Frequencies() for source in sources}
    overall = _Frequencies()
    for source, target in pairs:
        overall.add(target)
        if source in of_source:
            of_source[source].add(target)
    fallback = overall.most_frequent() or ""
    return [of_source[source].most_frequent() or fallback for source in sources]


class _Frequencies:
    """Counts of at most `MAX_SENTENCES` sentences (Misra and Gries 1982): exact while no more are distinct."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, sentence: str) -> None:
        if sentence in self._counts:
            self._counts[sentence] += 1
        elif len(self._counts) < MAX_SENTENCES:
            self._counts[sentence] = 1
        else:
            self._counts = {known: count - 1 for known, count in self._counts.items() if count > 1}

    def most_frequent(self) -> str | None:
        return max(self._counts, key=self._counts.__getitem__, default=None)
