"""What a person has typed of a translation, shared out to the pieces in which a line is translated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dikkat_runtime.text.segmentation import Piece
from dikkat_runtime.text.sentences import cut_at_sentences, split_sentences


@dataclass(frozen=True, slots=True)
class TypedPrefix:
    """How far the typed text goes."""

    finished: str
    """Text for the pieces before `number`, which are not translated any more."""
    number: int
    """Of the piece that the rest of it begins; behind the last piece where there is none."""
    begun: str
    """What the translation of that piece begins with."""


UNTYPED = TypedPrefix("", -1, "")
"""Nothing is typed."""


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
            # what is copied was perhaps typed too
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
