"""Recognise pairs that are not parallel text: ids, copies, labels, one text twice."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dikkat.data.cleaning import shorten
from dikkat.data.pairs import Pair
from dikkat_runtime.errors import DataError, msg, plural
from dikkat_runtime.rows.dialect import is_number, read_table

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
    return (_ids(pairs, data) or _one_text_twice(pairs) or _labels_or_copies(pairs)) if pairs else ""


def _ids(pairs: Sequence[Pair], data: Sequence[str]) -> str:
    by_name = zip(_SIDES, zip(*_texts(pairs), strict=True), strict=True)
    numbers = [name for name, side in by_name if sum(map(is_number, side)) >= _MIN_SHARE * len(side)]
    if not numbers:
        return ""
    advice = _text_columns(data) if len(data) == 1 else msg("name two files of text")
    return msg(
        "the {columns} are only numbers; {advice}" if len(numbers) > 1 else "the {columns} is only numbers; {advice}"
    ).fill(msg("source and the target" if len(numbers) > 1 else numbers[0]), advice)


def _text_columns(data: Sequence[str]) -> str:
    """Which columns of a table to name instead."""
    try:
        dialect, rows = read_table(Path(data[0]))
        some = [row for _, row in islice(rows, _ROWS)][bool(dialect.header) :]
    except DataError:  # no such table
        return msg("name the columns of the texts")
    columns = [
        number
        for number in range(1, dialect.num_columns + 1)
        if sum(_has_words(row[number - 1]) for row in some if len(row) >= number) >= _MIN_SHARE * len(some)
    ]
    if len(columns) < 2:
        return msg("no two columns of it hold texts")
    return msg("its texts seem to be in columns {columns}: add --source-column {source} --target-column {target}").fill(
        " and ".join(map(str, columns[:2])), columns[0], columns[1]
    )


def _has_words(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _one_text_twice(pairs: Sequence[Pair]) -> str:
    same = [pair for pair in pairs if pair.source.strip() == pair.target.strip() and _has_words(pair.source)]
    if len(pairs) < _MIN_PAIRS or len(same) < _HALF * len(pairs):
        return ""
    return msg(
        "source and target are the same text in {share:.0%} of the pairs, such as line {line}: {text}; name another "
        "column or file for one of them"
    ).fill(len(same) / len(pairs), same[0].line, shorten(same[0].source))


def _labels_or_copies(pairs: Sequence[Pair]) -> str:
    if len(pairs) < _MIN_PAIRS:
        return ""
    distinct = [sorted(set(side)) for side in zip(*_texts(pairs), strict=True)]
    few = [len(side) * _PER_LABEL <= len(pairs) for side in distinct]
    if all(few):
        return msg("it repeats itself: {different} in its first {first}").fill(
            plural(len(set(_texts(pairs))), "different pair"), plural(len(pairs), "pair")
        )
    if not any(few):
        return ""
    side = few.index(True)
    return msg(
        "the {sides} is one of only {texts} ({examples}), like labels; to classify texts, use dikkat train classifier"
    ).fill(_SIDES[side], plural(len(distinct[side]), "text"), ", ".join(map(shorten, distinct[side][:3])))


def _texts(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]
