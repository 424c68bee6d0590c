"""Find the parts of a text that are not language: markup, placeholders, addresses, numbers."""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from typing import Literal

Kind = Literal["placeholder", "tag", "URL", "e-mail", "number"]
KINDS: tuple[Kind, ...] = ("placeholder", "tag", "URL", "e-mail", "number")

_PATTERNS: dict[Kind, str] = {
    "URL": r"\b(?:[A-Za-z][A-Za-z0-9+.-]{1,15}://|(?i:mailto):(?=[^\s<>\"'@]{1,64}@)|(?i:www)\.)[^\s<>\"'\u3000-\u9fff]+",
    "e-mail": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    "tag": r"</?[A-Za-z][\w:-]{0,40}(?:\s[^<>]{0,400})?/?>|&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,30});",
    "placeholder": r"%(?:\(\w{1,60}\)|\d{1,2}\$)?[-+#0]*(?:\d{1,3})?(?:\.\d{1,3})?(?:hh?|ll?|[jztLq])?"
    r"[sdiufFgGeExXoc@](?!\w)"
    r"|%%|%\d{1,2}\b|\{\s{0,9}\w{1,60}\s{0,9},\s{0,9}(?:plural|selectordinal|select|number|date|time|duration|ordinal|spellout)\b"
    r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,400}\}){0,400}\}){0,400}\}|\{\{[^{}]{0,80}\}\}|\{%[^{}%]{0,80}%\}|\$?\{[^\s{}]{0,80}\}|\$\{[^{}]{1,80}\}"
    # Weblate's
    r"|\[X\d{1,9}X\]",
    "number": r"\d+(?:[.,'’\u00a0\u202f](?=\d{3}(?!\d))\d{3})*(?:[.,]\d+)*",
}
_GROUPS = {f"g{index}": kind for index, kind in enumerate(_PATTERNS)}
ADDRESS, *_ = PROTECTED = [name for name, kind in _GROUPS.items() if kind in ("URL", "e-mail", "placeholder")]
"""The groups of what stands for no language, the first that of an address."""
# compiled by `re` at the first use: most texts hold no placeholder
ANY = "|".join(f"(?P<{name}>{_PATTERNS[kind]})" for name, kind in _GROUPS.items())
_HINT = re.compile(r"[\d%{@&</]")
_GROUPED = re.compile(r"(?<=\d)[\s.,'’](?=\d{3})")
MARKS = ".,:;!?)]}»”"
"""Punctuation that may follow an address."""


def has_words(text: str) -> bool:
    """Return whether a letter stands outside markup, placeholders and addresses: something to translate."""
    if not any(map(str.isalpha, text)):
        return False
    return not _may_have_spans(text) or any(map(str.isalpha, re.sub(ANY, " ", text)))


def spans(text: str) -> Counter[tuple[Kind, str]]:
    """Return how often each placeholder, tag, address and number occurs in `text`; a number as its digits alone."""
    matches = re.finditer(ANY, text) if _may_have_spans(text) else ()
    kinds = ((_GROUPS[match.lastgroup or ""], match[0]) for match in matches)
    return Counter((kind, _normal(kind, written)) for kind, written in kinds)


def protected_spans(text: str, also: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the spans of placeholders, URLs and e-mail addresses, and of each match of `also` outside them."""
    matches = list(re.finditer(ANY, text)) if _may_have_spans(text) else []
    spans = [_without_marks(match) for match in matches if match.lastgroup in PROTECTED]
    alone = [match.span() for match in also.finditer(text)]
    starts = [start for start, _ in spans]
    # spans are in order and apart
    last = (bisect_right(starts, start) - 1 for start, _ in alone)
    free = [span for span, number in zip(alone, last, strict=True) if number < 0 or span[0] >= spans[number][1]]
    return sorted([*spans, *free])


def _without_marks(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of a match without a full stop after an address, which belongs to the sentence."""
    return match.start(), match.start() + len(match[0].rstrip(MARKS) if match.lastgroup == ADDRESS else match[0])


def _may_have_spans(text: str) -> bool:
    return _HINT.search(text) is not None or "www." in text.lower()


def lost(source: str, translation: str) -> tuple[set[Kind], list[tuple[Kind, str]]]:
    """Return the kinds of protected text in `source`, and those parts that occur less often in `translation`.

    A number may be grouped in another way, with spaces too, and lose zeros in front.
    """
    wanted = spans(source)
    if not wanted:
        return set(), []
    missing = wanted - spans(translation)
    digits = _digits(_GROUPED.sub("", translation)) if missing else ""
    gone = [
        (kind, written)
        for kind, written in wanted
        if (kind, written) in missing and not (kind == "number" and len(written) > 3 and written in digits)
    ]
    return {kind for kind, _ in wanted}, gone


def _normal(kind: Kind, written: str) -> str:
    if kind == "URL":
        return written.rstrip(MARKS)
    return _digits(written).replace(" ", "").lstrip("0") or "0" if kind == "number" else written


def with_ascii_digits(text: str) -> str:
    """Return a text of the same length, in which the decimal digits of any script are those of ASCII."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(character)) if character.isdecimal() else character for character in text)


def _digits(text: str) -> str:
    """Return the decimal digits of any script as ASCII, with a space for all else."""
    return "".join(str(unicodedata.decimal(character)) if character.isdecimal() else " " for character in text)
