"""Recognise the suffixes that may follow the stem of a word: none, or a chain of those of Turkish nouns.

The chains are those of the grammar (Göksel and Kerslake 2005, chapters 6 to 8): number, possession, case, relation,
copula. A vowel is written for its harmony: A for a or e, I for ı, i, u or ü; D for d or t, C for c or ç. Letters behind
a stem must form such a chain, so that "kar" matches in "karlar", not in "karar".
"""

from __future__ import annotations

from functools import lru_cache

from dikkat_runtime.text.casing import has_dotted_i

_CLASSES = {"A": "ae", "I": "ıiuü", "D": "dt", "C": "cç", "K": "kğ"}
_SUFFIXES = (
    *("lAr", "Im", "n", "In", "mIz", "ImIz", "nIz", "InIz", "I", "sI", "lArI"),
    *("yI", "nI", "A", "yA", "nA", "DA", "nDA", "DAn", "nDAn", "nIn", "yIn", "lA", "ylA"),
    *("ki", "DIr", "yDI", "DI", "mIş", "ymIş", "sA", "ysA", "ken", "yken"),
    *("CA", "lI", "sIz", "lIK", "CI", "CIK"),
)
_LONGEST = 24


@lru_cache(maxsize=65536)
def begins_suffixes(letters: str) -> bool:
    """Return whether a chain of Turkish suffixes begins with these letters."""
    return len(letters) <= _LONGEST and any(
        _fits(suffix, letters)
        if len(letters) <= len(suffix)
        else _fits(suffix, letters[: len(suffix)]) and begins_suffixes(letters[len(suffix) :])
        for suffix in _SUFFIXES
    )


@lru_cache(maxsize=65536)
def are_suffixes(letters: str) -> bool:
    """Return whether these letters are a chain of Turkish suffixes, or none."""
    if not letters:
        return True
    return len(letters) <= _LONGEST and any(
        _fits(suffix, letters[: len(suffix)]) and are_suffixes(letters[len(suffix) :])
        for suffix in _SUFFIXES
        if len(suffix) <= len(letters)
    )


def takes_suffixes(language: str) -> bool:
    """Return whether the suffixes of `language` are known here: those of Turkish and Azeri."""
    return has_dotted_i(language)


def _fits(suffix: str, letters: str) -> bool:
    return all(letter in _CLASSES.get(symbol, symbol) for symbol, letter in zip(suffix, letters, strict=False))
