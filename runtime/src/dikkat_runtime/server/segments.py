"""Texts cut into sentences for a translator, and put together again with all that stood between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.sentences import cut_at_sentences

LONGEST_SEGMENT = 400
"""Characters; a longer sentence is cut at a space, or where there is none, anywhere."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A part of a text that stays as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text that is translated on its own."""

    text: str


Part = Fixed | Segment


def split_text(text: str, language: str = "", *, sentences: bool = True, lines: bool = True) -> list[Part]:
    """Lines, and in them sentences; white space between them is fixed."""
    parts = list[Part]()
    for line in re.split(r"([\r\n]+)", text) if lines else [text]:
        for sentence in cut_at_sentences(line, language) if sentences else [line]:
            for piece in pieces(sentence):
                parts += _stripped(piece)
    return parts


def segments_of(parts: Sequence[Part]) -> list[str]:
    """The texts that are translated."""
    return [part.text for part in parts if isinstance(part, Segment)]


def pieces(sentence: str) -> Iterator[str]:
    """A sentence, cut where it is longer than a segment may be."""
    while len(sentence) > LONGEST_SEGMENT:
        cut = sentence.rfind(" ", LONGEST_SEGMENT // 2, LONGEST_SEGMENT)
        cut = LONGEST_SEGMENT if cut < 0 else cut
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _stripped(text: str) -> Iterator[Part]:
    """What is translated of a text, between its white space; nothing of a text without words."""
    core = text.strip()
    if not has_words(core):
        if text:
            yield Fixed(text)
        return
    start = text.index(core)
    if start:
        yield Fixed(text[:start])
    yield Segment(core)
    if rest := text[start + len(core) :]:
        yield Fixed(rest)
