"""Read `vmap.txt` of CTranslate2 as the shortlist of a run: the words that a translation may consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import EOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.foreign_json import read_regular, shown

_LARGEST = 1 << 30
SEVERAL_PIECES = "vmap.txt, which has words for several pieces in a row, so that every word may be written"
"""What is said of a map that a shortlist, which has words for single pieces, cannot hold."""


def read_vmap(
    path: Path,
    orders: Sequence[VocabularyOrder],
    lists: Sequence[Sequence[str]],
    unlisted: Sequence[str],
    *,
    looks_up_end: bool,
) -> Shortlist | None:
    """Return the words that `use_vmap=True` chooses among, in our ids; None where the map has n-grams of the source.

    `orders` and `lists`, the entries by their own ids, are those of source and target, or one of both; `unlisted` are
    the pieces of the source that its list lacks, which have the last ids. As CTranslate2 reads it
    (src/vocabulary_map.cc): of two lines of a piece the later counts, the unknown and the end may always be written, a
    word without an entry is the unknown, and what is unknown in a source has no words. The end mark of a source has
    some only where the tokenizer puts it there (`looks_up_end`); CTranslate2 adds its own behind the look-up.

    Raises `MissingInputError`, or `DataError` naming the line that is not a piece, a tab and words.
    """
    by_piece = _parsed(path)
    if any(" " in name for name in by_piece):
        return None
    source, target = orders[0], orders[-1]
    own_ids = _ids(source, lists[0]) | {
        name: len(source.rows) - len(unlisted) + number for number, name in enumerate(unlisted)
    }
    word_ids = _ids(target, lists[-1])
    listed: list[list[int]] = [[] for _ in source.rows]
    for name, words in by_piece.items():
        own = own_ids.get(name, 0)
        if own >= len(SPECIAL_TOKENS) or (own == EOS_ID and looks_up_end):
            listed[own] = _written(words, word_ids)
    always = {EOS_ID, UNK_ID, *_written(by_piece.get("", []), word_ids)}
    starts = np.cumsum([0, *map(len, listed)])
    joined = np.array([word for own in listed for word in own], np.int32)
    return Shortlist(np.array(sorted(always), np.int32), starts.astype(np.int32), joined)


def _parsed(path: Path) -> dict[str, list[str]]:
    """Return the words of each piece; those of "" may always be written."""
    try:
        text = read_regular(path, _LARGEST).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not text in UTF-8; restore the file, or take it away") from None
    by_piece = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        # as CTranslate2 reads lines, without the return of Windows
        name, *words = line.removesuffix("\r").split("\t")
        if len(words) != 1:
            raise DataError(
                f"{path}:{number}: is not a piece of the source, one tab and words: {shown(line)}; restore the file, or"
                " take it away"
            )
        by_piece[name] = words[0].split(" ")
    return by_piece


def _ids(order: VocabularyOrder, entries: Sequence[str]) -> dict[str, int]:
    """Return our id of each of their entries; where two of ours have one row, it is the first that is written."""
    ids = {}
    for own, row in reversed(list(enumerate(order.rows))):
        if row >= 0:
            ids[entries[row]] = own
    return ids


def _written(words: Sequence[str], ids: Mapping[str, int]) -> list[int]:
    """Return the rising ids of words, without the marks that are never written."""
    return sorted({own for own in (ids.get(word, UNK_ID) for word in words) if own >= EOS_ID})
