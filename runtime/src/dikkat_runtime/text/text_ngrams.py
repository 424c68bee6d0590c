"""Turn texts into the 64-bit hashes of their n-grams of words and of characters."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from dikkat_runtime.native.arrays import Array, address
from dikkat_runtime.native.library import library
from dikkat_runtime.text.casing import has_dotted_i, lower

WORDS_OR_SIGNS = re.compile(r"\w+|[^\w\s]")
_SIGNS = re.compile(r"[^\x00-\x7f\w]")
MAX_WORDS, MIN_CHARACTERS, MAX_CHARACTERS = 3, 2, 5
"""Words of the longest n-gram of words, characters of the shortest and the longest of characters."""
FACTORS = (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
)  # fmt: skip
"""Odd numbers by which the parts of an n-gram are told apart by their order."""
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors of the finalizer of SplitMix64."""
_MAX_UINT64 = (1 << 64) - 1
_AT_ONCE = 1 << 10
"""Texts whose words are hashed at once."""


class Ngrams(NamedTuple):
    """The n-grams of some texts, one entry for each time that one occurs."""

    texts: Array
    """(G,), the index of the text."""
    hashes: Array
    """(G,), unsigned 64-bit."""


class NgramReader:
    """Reads texts of one language, lower-cased."""

    def __init__(self, language: str = "", threads: int = 0, max_words: int = MAX_WORDS) -> None:
        """Words are hashed by so many `threads` of the kernels, by 0 in Python; n-grams have up to `max_words`."""
        self._language, self.threads, self._most = language, threads, max_words

    def words(self, text: str) -> list[str]:
        """Return the words and signs of a text, composed as those of training are."""
        return WORDS_OR_SIGNS.findall(self._lower(text))

    def _lower(self, text: str) -> str:
        return lower(normalize("NFC", text), self._language)

    def joined(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Return texts in UTF-8 as the kernels read their `words`, spaces around signs beyond ASCII, and their ends."""
        is_plain = not has_dotted_i(self._language)
        rows = [text if is_plain and text.isascii() else _SIGNS.sub(_apart, self._lower(text)) for text in texts]
        encoded = [row.encode("utf-8", "surrogatepass") for row in rows]
        return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum(list(map(len, encoded)), dtype=np.int64)

    def word_ngrams(self, texts: Sequence[str]) -> Ngrams:
        """Return the n-grams of one word to so many neighbouring ones of each text."""
        blocks = [self._word_hashes(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        flat, lengths = (np.concatenate(column) for column in zip(*blocks, strict=True))
        indices = np.repeat(np.arange(len(texts)), lengths)
        return _joined([Ngrams(indices, flat)] + [_windows(indices, flat, size) for size in range(2, self._most + 1)])

    def character_ngrams(self, texts: Sequence[str]) -> Ngrams:
        """Return the n-grams of characters inside the words of each text, with a space before and after each word."""
        rows = [f" {' '.join(self.words(text))} " for text in texts]
        codes = np.frombuffer("".join(rows).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
        indices = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        spaces = np.concatenate(([0], np.cumsum(codes == ord(" "))))
        mixed, ngrams = _mixed(codes), []
        for size in range(MIN_CHARACTERS, MAX_CHARACTERS + 1):
            windows = max(0, len(codes) - size + 1)
            # at most one space, and that at an end
            inner = spaces[size - 1 : size - 1 + windows] - spaces[1 : 1 + windows]
            both = (codes[:windows] == ord(" ")) & (codes[size - 1 : size - 1 + windows] == ord(" "))
            is_inside = (inner == 0) & ~(both & (size == MIN_CHARACTERS))
            ngrams.append(_windows(indices, mixed, size, is_inside))
        return _joined(ngrams)

    def _word_hashes(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Return the hashes of the words of all texts, and how many each text has (B,)."""
        if self.threads:
            text, ends = self.joined(texts)
            flat, lengths = np.empty(len(text), np.uint64), np.empty(len(texts), np.int64)
            joined, *others = (address(array) for array in (text, ends, flat, lengths))
            count = library()[0].hash_words(joined, others[0], len(texts), *others[1:], self.threads)
            return flat[:count].copy(), lengths
        rows = [self.words(text) for text in texts]
        words = list(chain.from_iterable(rows))
        hashes = {word: blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest() for word in set(words)}
        flat = np.frombuffer(b"".join(map(hashes.__getitem__, words)), "<u8")
        return flat, np.array(list(map(len, rows)))


def _apart(sign: re.Match[str]) -> str:
    return " " if sign[0].isspace() else f" {sign[0]} "


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
