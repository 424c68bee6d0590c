"""Recognise pairs that are no parallel text: ids, copies, labels, one text twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dikkat.data.cleaning import shorten
from dikkat.data.pairs import Pair
from dikkat.data.table_headers import is_number
from dikkat.data.tables import read_table
from dikkat_runtime.errors import DataError, plural

SAMPLE_PAIRS = 2_000
_MIN_SHARE = 0.9
_HALF = 0.5
_MIN_PAIRS = 20
"""Fewest pairs for which a repeated text is unusual."""
_PER_LABEL = 10
_ROWS = 300
_SIDES = ("source", "target")


def odd_side(pairs: Sequence[Pair], data: Sequence[str]) -> str:
    """Return what is unusual about these pairs, and what to do, in one clause; "" where nothing is."""
    if not pairs:
        return ""
    return _ids(pairs, data) or _one_text_twice(pairs) or _labels_or_copies(pairs)


def _ids(pairs: Sequence[Pair], data: Sequence[str]) -> str:
    numbers = [name for name, side in zip(_SIDES, zip(*_texts(pairs), strict=True), strict=True) if _are_numbers(side)]
    if not numbers:
        return ""
    advice = _text_columns(data) if len(data) == 1 else "name two files of text"
    return f"the {' and the '.join(numbers)} {'are' if len(numbers) > 1 else 'is'} only numbers; {advice}"


def _are_numbers(side: Sequence[str]) -> bool:
    return sum(map(is_number, side)) >= _MIN_SHARE * len(side)


def _text_columns(data: Sequence[str]) -> str:
    """Which columns of a table to name instead."""
    try:
        dialect, rows = read_table(Path(data[0]))
        some = [row for _, row in islice(rows, _ROWS)][bool(dialect.header) :]
    except DataError:  # no such table
        return "name the columns of the texts"
    columns = [
        number
        for number in range(1, dialect.num_columns + 1)
        if sum(_has_words(row[number - 1]) for row in some if len(row) >= number) >= _MIN_SHARE * len(some)
    ]
    if len(columns) < 2:
        return "no two columns of it hold texts"
    return (
        f"its texts seem to be in columns {' and '.join(map(str, columns[:2]))}:"
        f" add --source-column {columns[0]} --target-column {columns[1]}"
    )


def _has_words(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _one_text_twice(pairs: Sequence[Pair]) -> str:
    same = [pair for pair in pairs if pair.source.strip() == pair.target.strip() and _has_words(pair.source)]
    if len(pairs) < _MIN_PAIRS or len(same) < _HALF * len(pairs):
        return ""
    return (
        f"source and target are the same text in {len(same) / len(pairs):.0%} of the pairs, as line {same[0].line}:"
        f" {shorten(same[0].source)}; name another column or file for one of them"
    )


def _labels_or_copies(pairs: Sequence[Pair]) -> str:
    if len(pairs) < _MIN_PAIRS:
        return ""
    distinct = [sorted(set(side)) for side in zip(*_texts(pairs), strict=True)]
    few = [len(side) * _PER_LABEL <= len(pairs) for side in distinct]
    if all(few):
        different = len(set(_texts(pairs)))
        return f"it repeats itself: {plural(different, 'different pair')} in its first {plural(len(pairs), 'pair')}"
    if not any(few):
        return ""
    side = few.index(True)
    examples = ", ".join(map(shorten, distinct[side][:3]))
    return (
        f"the {_SIDES[side]} is one of only {plural(len(distinct[side]), 'text')} ({examples}), as labels are; to sort"
        " texts by label there is dikkat train classifier"
    )


def _texts(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]
