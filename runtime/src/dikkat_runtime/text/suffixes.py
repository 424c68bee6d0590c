"""Recognise the suffixes that may follow the stem of a word: none, or a chain of those of Turkish nouns.

The chains are those of the grammar (Göksel and Kerslake 2005, chapters 6 to 8): number, possession, case, relation,
copula. A vowel is written for its harmony: A for a or e, I for ı, i, u or ü; D for d or t, C for c or ç. Letters after
a stem must form such a chain, so that "kar" matches in "karlar", not in "karar".
"""

from functools import lru_cache

from dikkat_runtime.text.casing import has_dotted_i, lower

_CLASSES = {"A": "ae", "I": "ıiuü", "D": "dt", "C": "cç", "K": "kğ"}
_SUFFIXES = (
    *("lAr", "Im", "m", "n", "In", "mIz", "ImIz", "nIz", "InIz", "I", "sI", "lArI"),
    *("yI", "nI", "A", "yA", "nA", "DA", "nDA", "DAn", "nDAn", "nIn", "yIn", "lA", "ylA"),
    *("ki", "DIr", "yDI", "DI", "mIş", "ymIş", "sA", "ysA", "ken", "yken"),
    *("CA", "lI", "sIz", "lIK", "CI", "CIK"),
)
_MAX_LENGTH = 24
_FAMILIES = (
    ("I", "yI", "sI"), ("A", "yA"), ("nIn", "In"), ("Im", "m"), ("n", "In"), ("mIz", "ImIz"),
    ("nIz", "InIz"), ("DA", "nDA"), ("DAn", "nDAn"), ("ylA", "lA"), ("yDI", "DI"), ("ymIş", "mIş"), ("ysA", "sA"),
    ("yken", "ken"),
)  # fmt: skip
"""Suffixes that are one and the same after vowels and after consonants."""
_LAST = ("A", "yA", "nA", "yI", "nI")
"""Cases that no other suffix of these chains follows."""
_HARMONY = {"a": "aı", "ı": "aı", "e": "ei", "i": "ei", "o": "au", "u": "au", "ö": "eü", "ü": "eü"}
"""What A and I are after each vowel."""
_SOFT = {"k": "ğ", "p": "b", "ç": "c", "t": "d"}
_VOICELESS = "çfhkpsşt"
_MAX_CHAINS = 16


@lru_cache(maxsize=65536)
def begins_suffixes(letters: str) -> bool:
    """Return whether a chain of Turkish suffixes begins with these letters."""
    return not letters or (
        len(letters) <= _MAX_LENGTH
        and any(_fits(suffix, letters) and begins_suffixes(letters[len(suffix) :]) for suffix in _SUFFIXES)
    )


@lru_cache(maxsize=65536)
def are_suffixes(letters: str) -> bool:
    """Return whether these letters are a chain of Turkish suffixes, or none."""
    if not letters:
        return True
    return len(letters) <= _MAX_LENGTH and any(
        _fits(suffix, letters[: len(suffix)]) and are_suffixes(letters[len(suffix) :])
        for suffix in _SUFFIXES
        if len(suffix) <= len(letters)
    )


def with_suffixes_of(form: str, written: str, lemma: str = "") -> list[str]:
    """Return a word with the suffixes that another word has, fitted to its sounds; where they are unclear, all ways.

    `lemma` is the other word without suffixes, if known. Suffixes after an apostrophe stay after one.
    """
    mark = next((letter for letter in written if letter in "'’"), "")
    if mark:
        parted = [written.partition(mark)[2]]
    elif (rest := _rest_after(lower(written, "tr"), lower(lemma, "tr"))) is not None:
        parted = [rest]
    else:
        parted = [written[start:] for start in range(2, len(written) + 1)]
    chains = [chain for letters in parted for chain in _chains(letters)][:_MAX_CHAINS]
    ways = [form + mark * bool(suffix) + suffix for chain in chains for suffix in _fitted(chain, form)]
    return list(dict.fromkeys(ways)) or [form]


def _rest_after(written: str, lemma: str) -> str | None:
    """Return the letters after the lemma in a word, even a softened one; None where they are not suffixes."""
    if len(lemma) < 2:
        return None
    if not written.startswith(lemma):
        soft = _SOFT.get(lemma[-1])
        if soft is None or not written.startswith(lemma[:-1] + soft):
            return None
    letters = written[len(lemma) :]
    return letters if are_suffixes(letters) else None


def _chains(letters: str) -> list[tuple[str, ...]]:
    if not are_suffixes(letters):
        return []
    if not letters:
        return [()]
    return [
        (suffix, *rest)
        for suffix in _SUFFIXES
        if len(suffix) <= len(letters) and _fits(suffix, letters[: len(suffix)])
        for rest in _chains(letters[len(suffix) :])
        if not rest or suffix not in _LAST
    ]


def _fitted(chain: tuple[str, ...], stem: str) -> list[str]:
    """Return the letters of a chain after a stem: in each form of its first suffix that may follow the last letter."""
    if not chain:
        return [""]
    first, *rest = chain
    family = next((own for own in _FAMILIES if first in own), (first,))
    if lower(stem[-1:], "tr") in _HARMONY:
        firsts = [suffix for suffix in family if suffix[0] not in "AI"]
    else:
        firsts = [suffix for suffix in family if suffix[0] in "AI"] or [s for s in family if s[0] not in "yn"]
    return [_harmonized("".join((own, *rest)), stem) for own in firsts if not rest or own not in _LAST]


def _harmonized(symbols: str, stem: str) -> str:
    letters = stem
    for number, symbol in enumerate(symbols):
        vowel = next((letter for letter in reversed(lower(letters, "tr")) if letter in _HARMONY), "e")
        if symbol in "AI":
            letters += _HARMONY[vowel]["AI".index(symbol)]
        elif symbol in "DC":
            letters += ("tç" if lower(letters[-1:], "tr") in _VOICELESS else "dc")["DC".index(symbol)]
        elif symbol == "K":
            letters += "ğ" if symbols[number + 1 : number + 2] in ("A", "I") else "k"
        else:
            letters += symbol
    return letters[len(stem) :]


def takes_suffixes(language: str) -> bool:
    """Return whether the suffixes of `language` are known here: those of Turkish and Azeri."""
    return has_dotted_i(language)


def _fits(suffix: str, letters: str) -> bool:
    """Return whether a suffix may be what the first of these letters are, as many as it has."""
    return all(letter in _CLASSES.get(symbol, symbol) for symbol, letter in zip(suffix, letters, strict=False))
