"""Find the signs of a text that are not language and that a model cannot know: emoji, bullets, ticks, arrows, notes.

Emoji are sequences (Unicode Technical Standard 51): flags are two letters, skin tones and variation selectors follow
their sign, and joiners make one sign of several.
"""

import re
import unicodedata
from collections.abc import Container, Iterator

from dikkat_runtime.text.normalizing import TONE

# compiled by `re` at the first use: most texts hold no emoji, and sets beyond U+FFFF take long
EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[0-9#*]\ufe0f?\u20e3"
    "|\U0001f3f4[\U000e0020-\U000e007f]+"
    f"|[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    f"\U0001f000-\U0001faff][\ufe0e\ufe0f]?[{TONE}]?"
    f"(?:\u200d[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff][\ufe0e\ufe0f]?[{TONE}]?)*"
)
MARKER = re.compile(r"\s*((?:[-*+•‣⁃◦▪▫●○■□–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][)])(?:\s+\[[ xX]\])?)(?=\s+\S)")
"""A mark before an entry of a list, or a number, followed by a space; perhaps with a box to tick."""
ORDINAL = re.compile(r"\s*\d{1,3}\.\s")
CATEGORIES = ("So", "Sm", "Sk", "Sc", "Po", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "No")
PARTS_OF_EMOJI = "\ufe0e\ufe0f\u20e3"
"""Variation selectors and the frame of a key."""
UNITS = frozenset("°℃℉№µΩ‰′″ªº²³¹½¼¾")
"""Signs that belong to the number or word next to them."""


def symbol_spans(text: str, known: Container[str], *, has_ordinals: bool = False) -> list[tuple[int, int]]:
    """Return the spans of the mark of a list at the beginning, of emoji, and of signs that are not `known`.

    With `has_ordinals` the language writes "3." for "third", which is then no mark of a list.

    Signs next to one another, with or without spaces between, are one span.
    """
    marker = None if has_ordinals and ORDINAL.match(text) else MARKER.match(text)
    spans = [marker.span(1)] if marker else []
    if not text.isascii():
        spans += _signs(text, known)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _signs(text: str, known: Container[str]) -> Iterator[tuple[int, int]]:
    emoji = [match.span() for match in re.finditer(EMOJI, text)]
    yield from emoji
    inside = {index for start, end in emoji for index in range(start, end)}
    for index, character in enumerate(text):
        if character.isascii() or index in inside or character in known or character in UNITS:
            continue
        if unicodedata.category(character) in CATEGORIES or character in PARTS_OF_EMOJI:
            yield index, index + 1
