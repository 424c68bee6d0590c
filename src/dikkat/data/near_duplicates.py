"""Tell near-duplicates: texts that differ in case, numbers, punctuation or markup alone have one key."""

import re
import unicodedata
from hashlib import blake2b

from dikkat.data.pairs import Pair

_MARKUP = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+#\d]*(?:\.\d+)?(?:hh|ll|[hlzjtq])?[diouxefgcsp@]"  # printf: %s, %2$d, %(name)s, %.1f
    r"|[$%]?\{[^{}\s]*\}"  # {name}, ${name}, {0}
    r"|</?[a-z][\w:-]*(?:\s+[\w:-]+\s*=\s*(?:'[^']*'|\"[^\"]*\"))*\s*/?>"  # <b>, </a>, <br/>, <a href="x">
    r"|&(?:[a-z][a-z0-9]*|#x?[0-9a-f]+);"  # &amp;, &#160;
)
_MNEMONICS = re.compile(r"[_&](?=\w)")
_NUMBERS = re.compile(r"\d+(?:[.,:\u00a0\u202f]\d+)*")


def near_key(text: str) -> str:
    """Return a text without case, numbers, punctuation, markup, placeholders and mnemonics.

    Numbers become 0. The four Turkish letters I, ı, İ, i become one, since which of them is meant by a capital
    depends on the language.
    """
    folded = text.casefold()
    if any(mark in folded for mark in "%{<&_"):
        folded = _MNEMONICS.sub("", _MARKUP.sub(" ", folded))
    return " ".join(_NUMBERS.sub("0", folded).translate(_WITHOUT_PUNCTUATION).split())


def pair_keys(pair: Pair, seed: int) -> tuple[int, int]:
    """Return hashes of the near keys of source and target."""
    return _hash("source", pair.source, seed), _hash("target", pair.target, seed)


def text_key(text: str, seed: int) -> int:
    """Return the hash of the near key of a text that has no translation, 8 bytes."""
    return _hash("source", text, seed)


def _hash(side: str, text: str, seed: int) -> int:
    """8 bytes; the side is part of it, so that a source never meets a target."""
    digest = blake2b(near_key(text).encode("utf-8", "replace"), digest_size=8, key=f"{side} {seed}".encode())
    return int.from_bytes(digest.digest(), "big")


class _CharacterMap(dict[int, str | None]):
    """A translation table that is filled as characters are met: letters, marks and digits stay, the rest is space."""

    def __missing__(self, code: int) -> str | None:
        category = unicodedata.category(chr(code))
        # Soft hyphens, joiners and marks of direction are invisible inside words.
        kept = None if category == "Cf" else chr(code) if category[0] in "LMN" else " "
        self[code] = kept
        return kept


# casefold turns I and i into i, İ into i + U+0307, and leaves ı.
_WITHOUT_PUNCTUATION = _CharacterMap({0x131: "i", 0x307: None})
