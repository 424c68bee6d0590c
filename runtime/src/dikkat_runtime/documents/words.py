"""Split a text into words as spans of characters."""

import re
from collections.abc import Sequence

Span = tuple[int, int]
"""The first character, and the one after the last."""

_SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words: each is a word here."""
_WORD = re.compile(rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])\w)+(?:[-.,:/@'’](?=\w)(?:(?![{_SPACELESS}])\w)+)*|[^\w\s]")


def word_spans(text: str) -> list[Span]:
    """Return words, and signs one by one, without white space.

    A sign between letters is in a word: l'ami, Ankara'da.
    """
    return [match.span() for match in _WORD.finditer(text)]


def is_sign(text: str, span: Span) -> bool:
    """Return whether a span is of punctuation or symbols alone."""
    return not any(map(str.isalnum, text[slice(*span)]))


def word_shares(spans: Sequence[Span], pieces: Sequence[Span]) -> list[list[int]]:
    """Return for each word the pieces (tokens) that have a character in it, both in their order."""
    shares: list[list[int]] = []
    first = 0
    for start, end in spans:
        while first < len(pieces) and pieces[first][1] <= start:
            first += 1
        last = first
        while last < len(pieces) and pieces[last][0] < end:
            last += 1
        shares.append([number for number in range(first, last) if pieces[number][1] > start])
    return shares
