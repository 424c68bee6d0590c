"""Read a SentencePiece model (`.spm`, `.model`): its pieces with their scores, and how it normalises a text.

The file is a message of Protocol Buffers, `ModelProto` in sentencepiece_model.proto of the library; the few fields
that decide how a text is cut are read here, so that importing a translator needs neither that library nor protobuf.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.charsmap import check_charsmap
from dikkat_runtime.text.foreign_json import read_regular, shown

_MAX_SIZE = 64 << 20
"""Bytes; a vocabulary of 250,000 pieces takes 5 MB."""
_MAX_PIECES = 1 << 20
_UNIGRAM = 1
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class PieceKind(IntEnum):
    """Name what an entry of the vocabulary is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold one entry of the vocabulary."""

    text: str
    score: float
    """Log-probability, from which the most probable way to cut a word follows."""
    kind: PieceKind


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """Hold what a SentencePiece model of the kind unigram cuts a text by."""

    path: Path
    pieces: tuple[Piece, ...]
    """By their ids in the model."""
    charsmap: bytes
    """The map of characters that a text is normalised by; empty where there is none."""
    begins_with_space: bool
    """Whether the first word too begins with a space."""
    collapses_spaces: bool
    """Whether spaces at the ends are taken off, and several between words are one."""

    @property
    def least_score(self) -> float:
        """Return the score of the least probable piece, 10 below which the library scores what has none."""
        return min(piece.score for piece in self.pieces if piece.kind == PieceKind.NORMAL)

    @property
    def largest_score(self) -> float:
        """Return the score of the most probable piece."""
        return max(piece.score for piece in self.pieces if piece.kind == PieceKind.NORMAL)


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read the model in a file. Raises `MissingInputError`, or `DataError` for a damaged file or another kind."""
    content = read_regular(path, _MAX_SIZE)
    try:
        return _model(path, content)
    except (ValueError, struct.error) as error:
        raise DataError("{path}: not a readable SentencePiece model ({error})").fill(path, shown(str(error))) from None


def _model(path: Path, content: bytes) -> SentencePieceModel:
    pieces, trainer, normalizer = [], dict[int, int | bytes](), dict[int, int | bytes]()
    for number, value in _fields(content):
        if number == 1:
            pieces.append(_piece(_message(value)))
        elif number == 2:
            trainer = dict(_fields(_message(value)))
        elif number == 3:
            normalizer = dict(_fields(_message(value)))
        elif number == 5 and dict(_fields(_message(value))).get(2):
            raise ValueError("it maps characters back when it writes, which dikkat does not")
    kind = _number(trainer.get(3, _UNIGRAM))
    if kind != _UNIGRAM:
        raise ValueError(f"of the kind {_KINDS.get(kind, kind)}, but only unigram is read")
    if trainer.get(24, 0) or not normalizer.get(5, 1):
        raise ValueError("it puts the mark of a space after a word or leaves it out, which dikkat does not")
    if len(pieces) > _MAX_PIECES or len({piece.text for piece in pieces}) < len(pieces):
        raise ValueError("its pieces are too many, or one stands in it twice")
    if not any(piece.kind == PieceKind.NORMAL for piece in pieces):
        raise ValueError("it has no pieces")
    charsmap = _message(normalizer.get(2, b""))
    if charsmap:
        check_charsmap(charsmap)
    return SentencePieceModel(path, tuple(pieces), charsmap, bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1)))


def _piece(message: bytes) -> Piece:
    fields = dict(_fields(message))
    (score,) = struct.unpack("<f", _message(fields.get(2, b"\0\0\0\0")))
    text = _message(fields.get(1, b"")).decode("utf-8")
    if not text or not math.isfinite(score):
        raise ValueError("a piece without text or without a score")
    return Piece(text, score, PieceKind(_number(fields.get(3, 1))))


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("text where there should be a number")
    return value


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where there should be text")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: a whole number, or the bytes of a text, a message or a float."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        sizes = {1: 8, 5: 4}
        if tag & 7 == 2:
            size, at = _varint(message, at)
        elif tag & 7 in sizes:
            size = sizes[tag & 7]
        else:
            raise ValueError("a field of no known type")
        if at + size > len(message):
            raise ValueError("it is cut short")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A whole number of seven bits a byte, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("it is cut short")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError("a number that does not end")
