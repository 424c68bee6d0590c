"""Split a text into the words as its reader typed them, each with the tokens that stand for it.

The tokens of a vocabulary (bytes, lower case, `<unk>`) are for models; these words are for people.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from dikkat_runtime.text.tokenizer import Tokenizer

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese."""


_CHUNK = re.compile(r"(?P<tag></?[A-Za-z][^<>]*>)|(?:(?!</?[A-Za-z][^<>]*>)\S)+")
"""Pattern of a tag of HTML, with the spaces in it, or of text between white space and tags."""
_AROUND = ".,;:!?…\"'“”‘’«»„()[]{}¿¡。，、；：！？（）「」『』"
"""Punctuation before and after words, which is not part of them."""


class TypedWord(NamedTuple):
    """One word of a text."""

    text: str
    """In its own case and whole characters, with the punctuation at it."""
    tokens: tuple[int, ...]
    """Indices of its tokens, rising; tokens of the space before it are among them."""

    @property
    def bare(self) -> str:
        """The word without the punctuation around it; a word of punctuation alone stays as it is."""
        return self.text.strip(_AROUND) or self.text


def typed_words(tokenizer: Tokenizer, text: str, language: str = "") -> list[TypedWord]:
    """Return the words of `text`, split at white space, with all tokens of `Tokenizer.encode(text, language)` in order.

    A tag of HTML is a word of its own.

    Where a script has no spaces, each token, or the few that share a character, is a word.
    """
    text, spans = tokenizer.spans(text, language)
    words = _words(text, spans)
    number = 0
    tokens: list[list[int]] = [[] for _ in words]
    for index, (start, end) in enumerate(spans):
        visible = next((at for at in range(start, end) if not text[at].isspace()), end)
        while number + 1 < len(words) and words[number][1] <= visible:
            number += 1
        if words:
            tokens[number].append(index)
    return [TypedWord(text[start:end], tuple(indices)) for (start, end), indices in zip(words, tokens, strict=True)]


def _words(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return start and end of each word."""
    inside = {index for start, end in spans for index in range(start + 1, end)}
    words: list[tuple[int, int]] = []
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        if chunk["tag"]:
            words.append(chunk.span())
            continue
        for index in range(start + 1, chunk.end()):
            if index not in inside and _may_part(text[index - 1], text[index]):
                words.append((start, index))
                start = index
        words.append((start, chunk.end()))
    return words


def _may_part(before: str, after: str) -> bool:
    """Return whether a word may end between two adjacent characters."""
    if unicodedata.category(after).startswith("M"):
        return False
    return bool(_UNSPACED.match(before) or _UNSPACED.match(after))
