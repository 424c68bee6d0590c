"""Choose the columns of label and text in a table: by the names in its header, or by their content.

Labels are few and short, texts are many and long. A number that counts the rows is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from dikkat.data.tables import read_table

SAMPLE_ROWS = 2_000
"""Rows by which columns are told apart."""
_LEAST_ROWS = 8
"""Fewest rows from which repetition is meaningful."""
_FAR_LONGER = 3
"""A third column counts as the text if it is this many times as long as the second."""

_CALLED_LABEL = """
label labels class classes category categories tag tags topic topics intent sentiment polarity rating stars target
etiket etiketler sınıf kategori konu duygu étiquette étiquettes classe catégorie etiqueta clase kategorie
"""
_LABEL_NAMES = frozenset(_CALLED_LABEL.split())
_CALLED_TEXT = """
text texts sentence sentences review comment message tweet content body question document utterance title source
metin cümle yorum mesaj texte phrase avis texto frase reseña satz
"""
_TEXT_NAMES = frozenset(_CALLED_TEXT.split())


def choose_columns(path: Path, separator: str | None, note: Callable[[str], None]) -> tuple[str, str]:
    """Return the columns of label and text, counted from 1; the first two where nothing says better.

    A choice that is not told with the dialect of the table goes to `note`. Raises what `read_table` does.
    """
    dialect, rows = read_table(path)
    sample = [row for _, row in islice(rows, SAMPLE_ROWS + bool(dialect.header))][bool(dialect.header) :]
    by_name = _by_name(dialect.header)
    label, text = by_name or _by_content(sample, separator)
    if dialect.is_plain and (label, text) != (0, 1):
        values = _values(sample, label, separator)
        note(
            f"{path}: label = column {label + 1} ({len(values):,} different, as “{min(values)}”), text = column"
            f" {text + 1}, by what is in them; else name them with --label-column and --text-column"
        )
    return str(label + 1), str(text + 1)


def are_swapped(rows: Sequence[Sequence[str]], separator: str | None) -> bool:
    """Return whether the second of two columns holds the labels."""
    return _by_content(rows[:SAMPLE_ROWS], separator) == (1, 0)


def _by_name(header: Sequence[str]) -> tuple[int, int] | None:
    names = [name.casefold() for name in header]
    labels = [index for index, name in enumerate(names) if name in _LABEL_NAMES]
    texts = [index for index, name in enumerate(names) if name in _TEXT_NAMES]
    return (labels[0], texts[0]) if labels and texts else None


def _by_content(rows: Sequence[Sequence[str]], separator: str | None) -> tuple[int, int]:
    columns = list(zip_longest(*rows, fillvalue=""))
    if len(rows) < _LEAST_ROWS or len(columns) < 2:
        return 0, 1
    distinct = [len(_values(rows, index, separator)) for index in range(len(columns))]
    lengths = [sum(map(len, column)) / len(rows) for column in columns]
    few = [index for index in range(len(columns)) if 2 <= distinct[index] <= len(rows) / 2]
    label = 0
    if 0 not in few or (distinct[1] < distinct[0] and lengths[1] < lengths[0]):
        label = min(few, key=lambda index: distinct[index], default=0)
    others = [index for index in range(len(columns)) if index != label]
    longest = max(others, key=lambda index: lengths[index])
    if label == 0 and lengths[longest] < _FAR_LONGER * lengths[1]:
        longest = 1
    return label, longest


def _values(rows: Sequence[Sequence[str]], index: int, separator: str | None) -> set[str]:
    cells = {row[index].strip() for row in rows if index < len(row)}
    return {part.strip() for cell in cells for part in cell.split(separator)} if separator else cells
