"""Divide the typed beginning of a translation among the pieces of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dikkat_runtime.text.segmentation import Piece
from dikkat_runtime.text.sentences import cut_at_sentences, split_sentences


@dataclass(frozen=True, slots=True)
class TypedPrefix:
    """The typed text, divided by pieces."""

    finished: str
    """Text for the pieces before `number`, which are not translated any more."""
    number: int
    """Index of the piece that the rest of the text begins; one behind the last piece where there is none."""
    begun: str
    """The beginning of the translation of that piece."""


UNTYPED = TypedPrefix("", -1, "")
"""The division of an empty text."""


def shared_out(prefix: str, pieces: Sequence[Piece], languages: tuple[str, str]) -> TypedPrefix:
    """Give each piece as many typed sentences as it has itself, the last one that has words all others.

    `languages` are those of the source and of the translation.
    """
    readable = [number for number, piece in enumerate(pieces) if piece.ids]
    sentences = cut_at_sentences(prefix, languages[1])
    finished, position = "", 0
    for number, piece in enumerate(pieces):
        rest = "".join(sentences[position:])
        if not piece.ids:
            # copied pieces may have been typed too
            if rest.lstrip().startswith(piece.text) and number != len(pieces) - 1:
                end = len(rest) - len(rest.lstrip()) + len(piece.text)
                end += len(rest[end:]) - len(rest[end:].lstrip())
                finished += rest[:end]
                sentences, position = cut_at_sentences(rest[end:], languages[1]), 0
            continue
        count = max(1, len(split_sentences(piece.text, languages[0])))
        if number == readable[-1] or position + count >= len(sentences):
            return TypedPrefix(finished, number, rest)
        finished += "".join(sentences[position : position + count])
        position += count
    return TypedPrefix(finished + "".join(sentences[position:]), len(pieces), "")
