"""The words of a text as its reader typed them, each with the tokens that stand for it.

What a vocabulary makes of a text (bytes, lower case, `<unk>`) is for models; a person is shown this.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from dikkat_runtime.text.tokenizer import Tokenizer

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese: no space stands between their words."""


_CHUNK = re.compile(r"(?P<tag></?[A-Za-z][^<>]*>)|(?:(?!</?[A-Za-z][^<>]*>)\S)+")
"""A tag of HTML, with the spaces in it, or what stands between white space and tags."""
_AROUND = ".,;:!?…\"'“”‘’«»„()[]{}¿¡。，、；：！？（）「」『』"
"""Punctuation that stands before and behind words, and is no part of them."""


class TypedWord(NamedTuple):
    """One word of a text."""

    text: str
    """In its own case and whole characters, with the punctuation at it."""
    tokens: tuple[int, ...]
    """Indices of its tokens, rising; tokens of the space before it are among them."""

    @property
    def bare(self) -> str:
        """The word without the punctuation around it; what is nothing else stays as it is."""
        return self.text.strip(_AROUND) or self.text


def typed_words(tokenizer: Tokenizer, text: str, language: str = "") -> list[TypedWord]:
    """The words of `text`, split at white space, with all tokens of `Tokenizer.encode(text, language)` in order.

    A tag of HTML is a word of its own.

    Where a script has no spaces, each token, or the few that share a character, is a word.
    """
    text, spans = tokenizer.spans(text, language)
    words = _words(text, spans)
    number = 0
    tokens: list[list[int]] = [[] for _ in words]
    for index, (start, end) in enumerate(spans):
        visible = next((place for place in range(start, end) if not text[place].isspace()), end)
        while number + 1 < len(words) and words[number][1] <= visible:
            number += 1
        if words:
            tokens[number].append(index)
    return [TypedWord(text[start:end], tuple(each)) for (start, end), each in zip(words, tokens, strict=True)]


def _words(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of each word."""
    inside = {place for start, end in spans for place in range(start + 1, end)}
    words: list[tuple[int, int]] = []
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        if chunk["tag"]:
            words.append(chunk.span())
            continue
        for place in range(start + 1, chunk.end()):
            if place not in inside and _may_part(text[place - 1], text[place]):
                words.append((start, place))
                start = place
        words.append((start, chunk.end()))
    return words


def _may_part(before: str, after: str) -> bool:
    """Whether a word may end between two characters that no space parts."""
    if unicodedata.category(after).startswith("M"):
        return False
    return bool(_UNSPACED.match(before) or _UNSPACED.match(after))
