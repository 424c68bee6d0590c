"""Read a SentencePiece model (`.spm`, `.model`): its pieces with their scores, and how it normalises a text.

The file is a message of Protocol Buffers, `ModelProto` in sentencepiece_model.proto of the library; the few fields
that decide how a text is cut are read here, so that importing a translator needs neither that library nor protobuf.
"""

import base64
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.foreign_json import read_regular, shown
from dikkat_runtime.text.pieces import HIDDEN, piece_bytes
from dikkat_runtime.text.tokenizer_check import check_charsmap

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
        raise DataError("{path}: not a readable SentencePiece model ({error})", path, shown(str(error))) from None


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


# Write the tokenizer of a run as a SentencePiece model (`.spm`), where it cuts as one does.
#
# The file is the message of Protocol Buffers that `sentencepiece_file` reads.

END, UNKNOWN = "</s>", "<unk>"
_LOOKED_UP = 5.0
"""So much less probable than the least probable piece is an entry that is not a piece; see `piece_tokenizer`."""


def entries_of(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces of a vocabulary without its four special entries, by their ids less 4."""
    return [entry.removeprefix(HIDDEN) for entry, _ in settings["model"]["vocab"][len(SPECIAL_TOKENS) :]]


def pieces_of(settings: Mapping[str, Any], *, all_entries: bool = False) -> list[Piece]:
    """Return the pieces of the SentencePiece model that cuts as the tokenizer with this JSON: `</s>`, `<unk>`, others.

    With `all_entries` the number of a piece is its id less 2: the entries that are never found in a text are there too,
    as unused ones, and so are the single characters that Hugging Face looks up.
    """
    vocabulary = settings["model"]["vocab"]
    least = vocabulary[0][1]
    has_bytes = bool(settings["model"]["byte_fallback"])
    added = {token["content"] for token in settings["added_tokens"]}
    pieces = [Piece(END, 0.0, PieceKind.CONTROL), Piece(UNKNOWN, 0.0, PieceKind.UNKNOWN)]
    for entry, score in vocabulary[len(SPECIAL_TOKENS) :]:
        text = entry.removeprefix(HIDDEN)
        if text != entry or entry in added or (score < least - _LOOKED_UP and not all_entries):
            if all_entries:
                pieces.append(Piece(text, 0.0, PieceKind.UNUSED))
            continue
        is_byte = has_bytes and len(entry) == 6 and len(piece_bytes(entry)) == 1
        pieces.append(Piece(entry, score, PieceKind.BYTE if is_byte else PieceKind.NORMAL))
    return pieces


def with_named(pieces: Sequence[Piece], entries: Sequence[str]) -> list[Piece]:
    """Return the pieces and, as unused ones, the `entries` that a translation may hold and that are not among them.

    Programs write the "▁" of a piece as a space only where the model has the piece. Single characters stay out: a
    program looks up in its vocabulary those that the model does not have.
    """
    known = {piece.text for piece in pieces}
    named = [entry for entry in dict.fromkeys(entries) if len(entry) > 1 and entry not in known]
    return [*pieces, *(Piece(entry, 0.0, PieceKind.UNUSED) for entry in named)]


def sentencepiece_file(pieces: Sequence[Piece], settings: Mapping[str, Any]) -> bytes:
    """Return the file of a model with these pieces that normalises a text as the tokenizer with this JSON does."""
    steps = {step["type"]: step for step in (settings["normalizer"] or {"normalizers": []})["normalizers"]}
    charsmap = base64.b64decode(steps["Precompiled"]["precompiled_charsmap"]) if "Precompiled" in steps else b""
    scheme = settings["pre_tokenizer"]["pretokenizers"][0]["prepend_scheme"]
    trainer = {3: _UNIGRAM, 4: len(pieces), 35: int(any(piece.kind == PieceKind.BYTE for piece in pieces))}
    marks = {40: 1, 41: -1, 42: 0, 43: -1}
    normalizer = [_text(1, b"dikkat"), _text(2, charsmap)]
    begins_with_space = scheme == "always" or "Prepend" in steps
    normalizer += [
        _encoded_number(3, int(begins_with_space)),
        _encoded_number(4, int("Strip" in steps)),
        _encoded_number(5, 1),
    ]
    content = [_text(1, _encoded_piece(piece)) for piece in pieces]
    content.append(_text(2, b"".join(_encoded_number(field, value) for field, value in (trainer | marks).items())))
    content.append(_text(3, b"".join(normalizer)))
    return b"".join(content)


def _encoded_piece(piece: Piece) -> bytes:
    kind = b"" if piece.kind == PieceKind.NORMAL else _encoded_number(3, piece.kind)
    return _text(1, piece.text.encode()) + b"\x15" + struct.pack("<f", piece.score) + kind


def _text(field: int, content: bytes) -> bytes:
    return _encoded_varint(field << 3 | 2) + _encoded_varint(len(content)) + content


def _encoded_number(field: int, value: int) -> bytes:
    return _encoded_varint(field << 3) + _encoded_varint(value % (1 << 64))


def _encoded_varint(value: int) -> bytes:
    """A whole number of seven bits a byte, the lowest first."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)
