"""Turn texts into the 64-bit hashes of their n-grams of words and of characters."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from dikkat_runtime.native.arrays import Array
from dikkat_runtime.text.casing import has_dotted_i, lower

WORDS_OR_SIGNS = re.compile(r"\w+|[^\w\s]")
MAX_WORDS, MIN_CHARACTERS, MAX_CHARACTERS = 3, 2, 5
"""Words of the longest n-gram of words, characters of the shortest and the longest of characters."""
FACTORS = (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
)  # fmt: skip
"""Odd numbers by which the parts of an n-gram are told apart by their order."""
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors of the finalizer of SplitMix64."""
_MAX_UINT64 = (1 << 64) - 1
_KEPT_WORDS = 1 << 20
"""Hashes of words that are remembered at most."""


class Ngrams(NamedTuple):
    """The n-grams of some texts, one entry for each time that one occurs."""

    texts: Array
    """(G,), the index of the text."""
    hashes: Array
    """(G,), unsigned 64-bit."""


class NgramReader:
    """Reads texts of one language, lower-cased; it remembers the hashes of the words that it has seen."""

    def __init__(self, language: str = "") -> None:
        self._language, self._has_dotted_i = language, has_dotted_i(language)
        self._hashes: dict[str, int] = {}

    def words(self, text: str) -> list[str]:
        """Return the words and signs of a text, composed as those of training are."""
        return WORDS_OR_SIGNS.findall(lower(normalize("NFC", text), self._language))

    def bytes_of(self, text: str) -> bytes:
        """Return a text as the kernels read its words: in UTF-8, as it is or with a space between all `words`."""
        is_plain = text.isascii() and not self._has_dotted_i
        return (text if is_plain else " ".join(self.words(text))).encode("utf-8", "surrogatepass")

    def word_ngrams(self, words: Sequence[Sequence[str]]) -> Ngrams:
        """Return the n-grams of one to `MAX_WORDS` neighbouring words of each text."""
        flat = self._word_hashes(list(chain.from_iterable(words)))
        texts = np.repeat(np.arange(len(words)), [len(row) for row in words])
        return _joined([Ngrams(texts, flat)] + [_windows(texts, flat, size) for size in range(2, MAX_WORDS + 1)])

    def character_ngrams(self, words: Sequence[Sequence[str]]) -> Ngrams:
        """Return the n-grams of characters inside the words of each text, with a space before and after each word."""
        rows = [f" {' '.join(row)} " for row in words]
        codes = np.frombuffer("".join(rows).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
        texts = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        spaces = np.concatenate(([0], np.cumsum(codes == ord(" "))))
        mixed, ngrams = _mixed(codes), []
        for size in range(MIN_CHARACTERS, MAX_CHARACTERS + 1):
            windows = max(0, len(codes) - size + 1)
            # at most one space, and that at an end
            inner = spaces[size - 1 : size - 1 + windows] - spaces[1 : 1 + windows]
            both = (codes[:windows] == ord(" ")) & (codes[size - 1 : size - 1 + windows] == ord(" "))
            is_inside = (inner == 0) & ~(both & (size == MIN_CHARACTERS))
            ngrams.append(_windows(texts, mixed, size, is_inside))
        return _joined(ngrams)

    def _word_hashes(self, words: Sequence[str]) -> Array:
        # threads share the reader: a dictionary that one has begun with is added to, but never emptied
        if len(self._hashes) > _KEPT_WORDS:
            self._hashes = {}
        hashes = self._hashes
        for word in set(words):
            if word not in hashes:
                digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                hashes[word] = int.from_bytes(digest, "little")
        return np.fromiter(map(hashes.__getitem__, words), np.uint64, len(words))


def _windows(texts: Array, hashes: Array, size: int, allowed: Array | None = None) -> Ngrams:
    """Return the hashes of `size` neighbours in one text each; `allowed` says which windows are n-grams."""
    windows = max(0, len(hashes) - size + 1)
    kept = texts[:windows] == texts[size - 1 : size - 1 + windows]
    kept = kept if allowed is None else kept & allowed
    total = np.full(windows, size, np.uint64)
    for offset in range(size):
        factor = np.uint64(FACTORS[offset] * (2 * size + 1) & _MAX_UINT64)
        total += hashes[offset : offset + windows] * factor
    return Ngrams(texts[:windows][kept], total[kept])


def _mixed(codes: Array) -> Array:
    """Return a 64-bit hash of each number (the finalizer of SplitMix64)."""
    mixed = (codes + np.uint64(1)) * np.uint64(FACTORS[0])
    for shift, factor in MIXING:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed)


def _joined(parts: Sequence[Ngrams]) -> Ngrams:
    return Ngrams(*(np.concatenate(column) for column in zip(*parts, strict=True)))
