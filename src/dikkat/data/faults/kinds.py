"""The kinds of faults that a pair may have; of several the first one counts."""

from __future__ import annotations

from enum import IntEnum


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
    Fault.ENCODING: "broken encoding",
    Fault.EMPTY: "empty side",
    Fault.MOJIBAKE: "mojibake",
    Fault.DUPLICATE: "duplicate",
    Fault.SEEN: "near-duplicate of the held-out data",
    Fault.COPY: "untranslated copy",
    Fault.SWAPPED: "swapped sides",
    Fault.LANGUAGE: "wrong language",
    Fault.SHIFTED: "shifted block",
    Fault.MARKUP: "markup residue",
    Fault.PLACEHOLDERS: "placeholders differ",
    Fault.NUMBERS: "numbers differ",
    Fault.SENTENCES: "sentences against segments",
    Fault.LENGTH: "length ratio",
}
MEANINGS = {
    Fault.ENCODING: "bytes that are not UTF-8, the replacement character, or control characters",
    Fault.EMPTY: "nothing on one side",
    Fault.MOJIBAKE: "UTF-8 that was read as Windows-1252, as in “cafÃ©”",
    Fault.DUPLICATE: "the same pair was there before",
    Fault.SEEN: "a side is that of a held-out pair but for case, numbers and punctuation: scores would be too good",
    Fault.COPY: "the target is the source",
    Fault.SWAPPED: "the source reads like the target's language, and the target like the source's",
    Fault.LANGUAGE: "a side is not in its language",
    Fault.SHIFTED: "the lines of a block answer lines before or behind their own",
    Fault.MARKUP: "tags or entities that are no language",
    Fault.PLACEHOLDERS: "%s, {name} and the like are not the same on both sides",
    Fault.NUMBERS: "numbers are not the same on both sides",
    Fault.SENTENCES: "one side holds more sentences than the other",
    Fault.LENGTH: "one side is far longer than the other",
}
