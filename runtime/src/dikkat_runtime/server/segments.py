"""Texts cut into sentences for a translator, and put together again with all that stood between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dikkat_runtime.server.glossaries import Terms
from dikkat_runtime.text.placeholders import has_words

LONGEST_SEGMENT = 400
"""Characters; a longer sentence is cut at a space, or where there is none, anywhere."""
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]{0,3}(?=\s+\S)|[。！？][」』”’）]{0,3}(?=.)")
_ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "no", "vol", "fig", "inc", "ltd", "co", "jr", "sr", "mm",
    "mme", "mlle", "art", "av", "bd", "ca", "bzw", "usw", "evtl", "nr", "str", "sn", "dok",
))  # fmt: skip
_LAST_WORD = re.compile(r"(\w+)\W{0,4}$")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A part of a text that stays as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text that is translated on its own."""

    text: str


Part = Fixed | Segment


def split_text(text: str, *, sentences: bool = True, lines: bool = True, terms: Terms | None = None) -> list[Part]:
    """Lines, in them sentences, in them what no glossary term covers; white space between them is fixed."""
    parts = list[Part]()
    for line in re.split(r"([\r\n]+)", text) if lines else [text]:
        for sentence in _sentences(line) if sentences else [line]:
            for piece in _pieces(sentence):
                parts += _around_terms(piece, terms)
    return parts


def segments_of(parts: Sequence[Part]) -> list[str]:
    """The texts that are translated."""
    return [part.text for part in parts if isinstance(part, Segment)]


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if not _goes_on(line, start, end.start(), end.end()):
            yield line[start : end.end()]
            start = end.end()
    yield line[start:]


def _goes_on(line: str, start: int, mark: int, end: int) -> bool:
    """Whether the sentence goes on after its mark: an abbreviation, an initial, or a small letter follows."""
    if line[mark] != ".":
        return False
    following = line[end : end + 40].lstrip()[:1]
    word = _LAST_WORD.search(line[max(start, mark - 20) : mark])
    last = word[1].lower() if word else ""
    return following.islower() or last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha())


def _pieces(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST_SEGMENT:
        cut = sentence.rfind(" ", LONGEST_SEGMENT // 2, LONGEST_SEGMENT)
        cut = LONGEST_SEGMENT if cut < 0 else cut
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _around_terms(text: str, terms: Terms | None) -> Iterator[Part]:
    start = 0
    for begin, end, translation in terms.occurrences(text) if terms else ():
        yield from _stripped(text[start:begin])
        yield Fixed(translation)
        start = end
    yield from _stripped(text[start:])


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
