"""Vocabularies of Marian: a SentencePiece model, or a `.yml` with the id of every piece and the models beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.interop.sentencepiece_file import PieceKind, SentencePieceModel, read_sentencepiece
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_regular, shown

SIDES = ("source.spm", "target.spm")
"""Files that cut a text into the pieces of a .yml, in the folder of it."""
_MAX_SIZE = 64 << 20
_KEY = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^ \t](?:.*[^ \t])?"
_ENTRY = re.compile(rf"(?P<key>{_KEY})[ \t]*:[ \t]+(?P<id>[0-9]{{1,7}})[ \t\r]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ",
    '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
"""Characters by the letter behind a backslash (YAML 1.2, section 5.7)."""


@dataclass(frozen=True, slots=True)
class MarianVocabulary:
    """Hold what one side's text becomes ids by."""

    entries: tuple[str, ...]
    """By their ids."""
    model: SentencePieceModel
    order: VocabularyOrder


def read_vocabulary(path: Path, side: int) -> MarianVocabulary:
    """Read the vocabulary of a side, 0 for the source. Raises `MissingInputError` or `DataError` naming the file."""
    if path.suffix == ".spm":
        model = read_sentencepiece(path)
        entries = tuple(piece.text for piece in model.pieces)
        unknown = next((number for number, piece in enumerate(model.pieces) if piece.kind == PieceKind.UNKNOWN), None)
    else:
        entries = _listed(path)
        model = read_sentencepiece(path.with_name(SIDES[side]))
        unknown = entries.index("<unk>") if "<unk>" in entries else None
    if unknown is None or "</s>" not in entries:
        raise DataError("{path}: has no entry for the end, </s>, or none for the unknown").fill(path)
    order = VocabularyOrder.of(len(entries), end=entries.index("</s>"), unknown=unknown)
    return MarianVocabulary(entries, model, order)


def _listed(path: Path) -> tuple[str, ...]:
    """Return the entries of a .yml by their ids.

    Libraries of YAML lose entries of such a file, which was written without one: a line is a piece and its id, and a
    piece may be what YAML takes for something else.
    """
    try:
        lines = read_regular(path, _MAX_SIZE).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise DataError("{path}: is not text in UTF-8").fill(path) from None
    ids: dict[int, str] = {}
    asked = ""
    for number, line in enumerate(lines, start=1):
        if line.startswith("? ") and not asked:
            asked = line[2:]
            continue
        line, asked = (asked + line, "") if asked else (line, "")
        if not line.strip() or line == "---":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or int(entry["id"]) in ids:
            raise DataError("{path}: line {number} must be a piece with an id of its own, not: {line}").fill(
                path, number, shown(line)
            )
        ids[int(entry["id"])] = _piece(entry["key"], f"{path}: line {number}")
    if asked or not ids or set(ids) != set(range(len(ids))):
        raise DataError("{path}: does not name all pieces from 0 to {ids:,}").fill(path, max(ids, default=0))
    entries = tuple(ids[number] for number in range(len(ids)))
    if len(set(entries)) < len(entries):
        raise DataError("{path}: a piece is there twice").fill(path)
    return entries


def _piece(key: str, where: str) -> str:
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    if len(key) < 2 or not key[0] == key[-1] == '"':
        return key

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is not None:
            return chr(int(code, 16))
        if match[4] not in _NAMED:
            raise ValueError
        return _NAMED[match[4]]

    try:
        piece = _ESCAPE.sub(character, key[1:-1])
        piece.encode()
    except (ValueError, OverflowError):
        raise DataError("{where} has an escape that stands for no character: {key}").fill(where, shown(key)) from None
    return piece
