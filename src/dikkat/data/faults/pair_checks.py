"""Faults that a pair shows by itself, each a small rule on two texts."""

import re
from collections import Counter
from enum import IntEnum

from dikkat_runtime.errors import msg
from dikkat_runtime.text.pair_faults import RATIO, placeholders_differ, ratio, sentences_differ

# The kinds of faults that a pair may have; of several the first one counts.


class Fault(IntEnum):
    """Why a pair is not fit to learn from, in the order in which it is asked."""

    NONE = 0
    ENCODING = 1
    EMPTY = 2
    MOJIBAKE = 3
    DUPLICATE = 4
    SEEN = 5
    COPY = 6
    SWAPPED = 7
    LANGUAGE = 8
    SHIFTED = 9
    MARKUP = 10
    PLACEHOLDERS = 11
    NUMBERS = 12
    SENTENCES = 13
    LENGTH = 14


NAMES = {
    Fault.ENCODING: msg("broken encoding"),
    Fault.EMPTY: msg("empty side"),
    Fault.MOJIBAKE: "mojibake",
    Fault.DUPLICATE: msg("duplicate"),
    Fault.SEEN: msg("near-duplicate of the held-out data"),
    Fault.COPY: msg("untranslated copy"),
    Fault.SWAPPED: msg("swapped sides"),
    Fault.LANGUAGE: msg("wrong language"),
    Fault.SHIFTED: msg("shifted block"),
    Fault.MARKUP: msg("markup residue"),
    Fault.PLACEHOLDERS: msg("placeholders differ"),
    Fault.NUMBERS: msg("numbers differ"),
    Fault.SENTENCES: msg("sentences against segments"),
    Fault.LENGTH: msg("length ratio"),
}
MEANINGS = {
    Fault.ENCODING: msg("bytes that are not UTF-8, the replacement character, or control characters"),
    Fault.EMPTY: msg("nothing on one side"),
    Fault.MOJIBAKE: msg("UTF-8 that was read as Windows-1252, as in “cafÃ©”"),
    Fault.DUPLICATE: msg("the same pair was there before"),
    Fault.SEEN: msg(
        "a side is that of a held-out pair except for case, numbers and punctuation: scores would be too good"
    ),
    Fault.COPY: msg("the target is the source"),
    Fault.SWAPPED: msg("the source reads like the target's language, and the target like the source's"),
    Fault.LANGUAGE: msg("a side is not in its language"),
    Fault.SHIFTED: msg("the targets of a block belong to sources before or after their own"),
    Fault.MARKUP: msg("tags or entities, which are not language"),
    Fault.PLACEHOLDERS: msg("%s, {name} and the like are not the same on both sides"),
    Fault.NUMBERS: msg("numbers are not the same on both sides"),
    Fault.SENTENCES: msg("one side holds more sentences than the other"),
    Fault.LENGTH: msg("one side is far longer than the other"),
}


_WRITTEN_OUT = 3
"""Digits of a number that may stand in words on the other side."""
_BROKEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ufffe\uffff\ud800-\udfff]")
_MOJIBAKE = re.compile(
    "(?:[\u00c2-\u00f4][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014"
    "\u2018-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122]+)"
)
_TAG = re.compile(
    r"</?(?:a|b|big|body|br|center|code|div|em|font|h[1-6]|hr|html|i|img|li|ol|p|s|small|span|strong|sub|sup|t[dhrt]|table|u|ul)"
    r"(?:\s[^<>]*)?/?>|&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[0-9a-fA-F]{2,5});|\{\\[a-z]+\d*\}|\[/?(?:b|i|u|url|quote)\]"
)
_DIGITS = re.compile(r"\d+(?:[.,:\u00a0\u202f]\d+)*")
_NO_DIGIT = re.compile(r"\D")


def own_fault(source: str, target: str) -> Fault:
    """The first of the faults in form alone: encoding, an empty side, mojibake."""
    if _BROKEN.search(source) or _BROKEN.search(target):
        return Fault.ENCODING
    if not source or not target or source.isspace() or target.isspace():
        return Fault.EMPTY
    return Fault.MOJIBAKE if is_mojibake(source) or is_mojibake(target) else Fault.NONE


def later_fault(source: str, target: str) -> Fault:
    """The first of the faults that are asked for after languages and shifts."""
    if ("<" in source or "<" in target or "&" in source or "&" in target or "{" in source or "[" in source) and (
        _TAG.search(source) or _TAG.search(target)
    ):
        return Fault.MARKUP
    if placeholders_differ(source, target):
        return Fault.PLACEHOLDERS
    if numbers_differ(source, target):
        return Fault.NUMBERS
    if sentences_differ(source, target):
        return Fault.SENTENCES
    return Fault.LENGTH if ratio(source, target) > RATIO else Fault.NONE


def is_mojibake(text: str) -> bool:
    """Return whether characters of `text` are bytes of UTF-8 that were read as Windows-1252."""
    return not text.isascii() and any(map(_was_utf8, _MOJIBAKE.findall(text)))


def _was_utf8(run: str) -> bool:
    raw = bytearray()
    for character in run:
        try:
            raw += character.encode("cp1252")
        except UnicodeEncodeError:
            if ord(character) > 255:
                return False
            raw.append(ord(character))
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def numbers_differ(source: str, target: str) -> bool:
    """Return whether the numbers of the sides differ; small ones may be written as words on one side."""
    ours, theirs = _numbers(source), _numbers(target)
    if ours == theirs:
        return False
    if ours and theirs:
        # 1.000,5 and 1,000.5 are one number, 12:30 may be 12.30, and 3 may be written as a word
        rest = [list((one - other).elements()) for one, other in ((ours, theirs), (theirs, ours))]
        return bool(rest[0] and rest[1]) or any(len(number) > 1 for side in rest for number in side)
    return any(len(number) > _WRITTEN_OUT for number in (ours or theirs))


def _numbers(text: str) -> Counter[str]:
    return Counter(_NO_DIGIT.sub("", number).lstrip("0") or "0" for number in _DIGITS.findall(text))
