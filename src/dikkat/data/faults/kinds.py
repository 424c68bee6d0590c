"""The kinds of faults that a pair may have; of several the first one counts."""

from __future__ import annotations

from enum import IntEnum

from dikkat_runtime.messages import msg


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
        "a side is that of a held-out pair but for case, numbers and punctuation: scores would be too good"
    ),
    Fault.COPY: msg("the target is the source"),
    Fault.SWAPPED: msg("the source reads like the target's language, and the target like the source's"),
    Fault.LANGUAGE: msg("a side is not in its language"),
    Fault.SHIFTED: msg("the lines of a block answer lines before or after their own"),
    Fault.MARKUP: msg("tags or entities, which are not language"),
    Fault.PLACEHOLDERS: msg("%s, {name} and the like are not the same on both sides"),
    Fault.NUMBERS: msg("numbers are not the same on both sides"),
    Fault.SENTENCES: msg("one side holds more sentences than the other"),
    Fault.LENGTH: msg("one side is far longer than the other"),
}
