"""Write the tokenizer of a run as a SentencePiece model (`.spm`), where it cuts as one does.

The file is the message of Protocol Buffers that `sentencepiece_file` reads.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from dikkat.interop.sentencepiece_file import Piece, PieceKind
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.pieces import HIDDEN, piece_bytes

END, UNKNOWN = "</s>", "<unk>"
_LOOKED_UP = 5.0
"""So much less probable than the least probable piece is an entry that is no piece; see `piece_tokenizer`."""
_UNIGRAM = 1


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
    normalizer += [_number(3, int(begins_with_space)), _number(4, int("Strip" in steps)), _number(5, 1)]
    content = [_text(1, _piece(piece)) for piece in pieces]
    content.append(_text(2, b"".join(_number(field, value) for field, value in (trainer | marks).items())))
    content.append(_text(3, b"".join(normalizer)))
    return b"".join(content)


def _piece(piece: Piece) -> bytes:
    kind = b"" if piece.kind == PieceKind.NORMAL else _number(3, piece.kind)
    return _text(1, piece.text.encode()) + b"\x15" + struct.pack("<f", piece.score) + kind


def _text(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value % (1 << 64))


def _varint(value: int) -> bytes:
    """A whole number of seven bits a byte, the lowest first."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)
