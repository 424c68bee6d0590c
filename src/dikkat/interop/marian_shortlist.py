"""Shortlists of Marian in their binary form (src/data/shortlist.h, BinaryShortlistGenerator)."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.text.foreign_json import read_regular

_MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_MAX_SIZE = 1 << 30


def read_binary_shortlist(path: Path, orders: tuple[VocabularyOrder, ...]) -> Shortlist:
    """Read a shortlist, in our ids: the vocabulary's order, or that of the source and that of the target.

    The words of a piece are the likeliest ones that the file lists and, where both sides have one vocabulary, the piece
    itself. Every translation may hold the most frequent words, of which the file tells how many. Raises
    `MissingInputError`, or `DataError` for a damaged file or one of other vocabularies.
    """
    content = read_regular(path, _MAX_SIZE)
    try:
        frequent, starts, words = _parsed(content)
    except (ValueError, struct.error) as error:
        raise DataError("{path}: not a readable shortlist of Marian ({error})", path, error) from None
    source, target = orders[0], orders[-1]
    ours = np.array([target.our_ids.get(row, 0) for row in range(max(target.rows) + 1)])
    unlisted = len(source.rows) - source.read_as_unknown
    if len(starts) != max(source.rows) + 2 or frequent > len(ours) or words.max(initial=0) >= len(ours):
        raise DataError("{path}: belongs to other vocabularies than those of the model", path)
    always = np.unique(np.append(ours[:frequent], EOS_ID))
    lists = []
    for own, row in enumerate(source.rows):
        listed = ours[words[starts[row] : starts[row + 1]]] if row >= 0 else ours[:0]
        with_own = np.append(listed, own) if len(orders) == 1 and EOS_ID <= own < unlisted else listed
        lists.append(np.unique(with_own))
    bounds = np.cumsum([0, *map(len, lists)])
    return Shortlist(always.astype(np.int32), bounds.astype(np.int32), np.concatenate(lists).astype(np.int32))


def binary_shortlist(shortlist: Shortlist, orders: tuple[VocabularyOrder, ...]) -> bytes | None:
    """Return the file of a shortlist; `orders` are those of the vocabularies that it is written with.

    What may always be written are the most frequent words, as many as are among it, and the list of the end mark, which
    every source has. Returns None where both sides have one vocabulary and a list lacks its own piece, which Marian
    then allows.
    """
    source, target = orders[0], orders[-1]
    theirs = np.array(target.rows)
    lists: list[NDArray[np.int64]] = [theirs[:0]] * (max(source.rows) + 1)
    always = theirs[shortlist.always]
    frequent = int((np.unique(always) == np.arange(len(np.unique(always)))).sum())
    for own, row in enumerate(source.rows):
        if row < 0:
            continue
        words = theirs[shortlist.words[shortlist.starts[own] : shortlist.starts[own + 1]]]
        if own == EOS_ID:
            words = np.union1d(words, always[always >= frequent])
        elif len(orders) == 1 and row not in words and row not in always:
            return None
        # the pieces themselves are added by whoever reads it
        lists[row] = np.setdiff1d(words, [row]) if len(orders) == 1 else np.unique(words)
    starts, words = np.cumsum([0, *map(len, lists)]), np.concatenate(lists)
    sizes = struct.pack("<4Q", frequent, max(map(len, lists)), len(starts), len(words))
    body = sizes + starts.astype("<u8").tobytes() + words.astype("<u4").tobytes()
    return struct.pack("<2Q", _MAGIC, _checksum(body)) + body


def _parsed(content: bytes) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return how many frequent words there are, where the words of each piece begin, and all words."""
    magic, checksum, frequent, _, count, total = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it does not begin as one")
    if len(content) != _HEADER.size + 8 * count + 4 * total:
        raise ValueError("it is cut short, or goes on after its end")
    if checksum != _checksum(content[16:]):
        raise ValueError("its content does not match its checksum")
    starts = np.frombuffer(content, "<u8", count, _HEADER.size).astype(np.int64)
    words = np.frombuffer(content, "<u4", total, _HEADER.size + 8 * count).astype(np.int64)
    if not count or starts[0] != 0 or starts[-1] != total or (np.diff(starts) < 0).any():
        raise ValueError("its lists overlap")
    return frequent, starts, words


def _checksum(content: bytes) -> int:
    """Return the hash of whole words of 64 bits, each mixed into that of those before it (boost's hash_combine)."""
    seed, mask = 0, (1 << 64) - 1
    for number in np.frombuffer(content[: len(content) // 8 * 8], "<u8").tolist():
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & mask
    return seed
