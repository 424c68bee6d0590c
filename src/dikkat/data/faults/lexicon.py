"""Statistics of the words of a corpus: which side a text belongs to, and which words answer each other.

They are learned from the first pairs of the corpus itself, most of which are right, without knowledge of a language.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

_WORD = re.compile(r"[^\W\d_]+")
_COMMON = 0.05
"""Share of the pairs from which on a word tells nothing of what a pair is about."""
_RARE = 2
_MOST_WORDS = 24
_LEARNED_FROM = 20_000
"""Pairs from which answers are learned."""
KNOWN_FROM = 3
"""Times that a word must have been met to be known."""


def words_of(text: str) -> list[str]:
    """Split a text into words in lower case, without numbers and signs."""
    return _WORD.findall(text.casefold())


class Lexicon:
    """The words of both sides of a corpus with their frequencies."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        split = [(words_of(source), words_of(target)) for source, target in pairs]
        for words in split:
            for side in (0, 1):
                counts[side].update(words[side])
        totals = [max(1, count.total()) for count in counts]
        self._odds = {
            word: math.log((counts[0][word] + 0.1) / totals[0]) - math.log((counts[1][word] + 0.1) / totals[1])
            for word in counts[0].keys() | counts[1].keys()
            if counts[0][word] + counts[1][word] >= KNOWN_FROM
        }
        """How much likelier a word is on the source side, as a logarithm."""
        self._answers = _answers(split[:_LEARNED_FROM])

    def odds(self, words: Sequence[str]) -> float:
        """Return the log-odds a word that a text is on the source side; 0 where no word is known."""
        return sum([self._odds.get(word, 0.0) for word in words]) / max(1, len(words))

    def bits(self, words: Iterable[str], side: int) -> int:
        """Hash the words of a text into 64 bits, so that a text and its translation share bits."""
        bits = 0
        for word in words:
            bits |= _bit(self._answers.get(word, word) if side == 0 else word)
        return bits


@lru_cache(maxsize=1 << 16)
def _bit(word: str) -> int:
    # names, numbers and cognates begin alike
    return 1 << (crc32(word[:5].encode("utf-8", "replace")) & 63)


def _answers(split: Sequence[tuple[list[str], list[str]]]) -> dict[str, str]:
    """For each source word the target word that it stands with most often for its frequency (Dice 1945)."""
    frequencies = [Counter(word for words in split for word in set(words[side])) for side in (0, 1)]
    most = max(3.0, _COMMON * len(split))
    together: dict[str, Counter[str]] = {}
    for source, target in split:
        theirs = [word for word in dict.fromkeys(target) if _RARE <= frequencies[1][word] <= most][:_MOST_WORDS]
        for word in dict.fromkeys(source[:_MOST_WORDS]):
            if _RARE <= frequencies[0][word] <= most:
                together.setdefault(word, Counter()).update(theirs)
    return {
        word: max(counts, key=lambda other: counts[other] / (frequencies[0][word] + frequencies[1][other]))
        for word, counts in together.items()
        if counts
    }
