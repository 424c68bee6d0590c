"""Read pairs from a table with columns or from JSON lines."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dikkat.data.pairs import Pair
from dikkat.data.tables import Dialect, read_table
from dikkat.data.text_files import read_lines
from dikkat_runtime.errors import DataError, UsageError, nearest

Column = str | int | None
"""A header name, a 1-based number (also as digits in a string), or the default of the format."""
Note = Callable[[str], None]
"""Takes one line about how the data is read."""

_DEFAULT_KEYS = (("source", "target"), ("src", "tgt"))
_EXAMPLE = '{"source": "...", "target": "..."}'
_LINE_BREAKS = re.compile(r"[\r\n]+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def read_table_pairs(
    path: Path, columns: tuple[Column, Column], roles: tuple[str, str], note: Note, lenient: bool
) -> Iterator[Pair]:
    numbers = [_number(column) for column in columns]
    return _read_columns(path, columns, numbers, roles, note, lenient)


def _number(column: Column) -> int | None:
    """0-based index of a column that is given as a 1-based number."""
    if isinstance(column, int) or (column is not None and column.isascii() and column.isdigit()):
        if int(column) < 1:
            raise UsageError(f"columns are counted from 1, so there is no column {column}")
        return int(column) - 1
    return None


def _read_columns(
    path: Path,
    columns: tuple[Column, Column],
    numbers: list[int | None],
    roles: tuple[str, str],
    note: Note,
    lenient: bool,
) -> Iterator[Pair]:
    dialect, rows = read_table(path, lenient=lenient)
    are_named = any(column is not None and index is None for column, index in zip(columns, numbers, strict=True))
    if are_named or dialect.header:
        header = [cell.strip() for cell in next(rows)[1]]
        dialect = replace(dialect, header=tuple(header))
    defaults = _default_columns(dialect)
    source, target = (
        index if index is not None else default if column is None else _named_column(path, str(column), dialect)
        for column, index, default in zip(columns, numbers, defaults, strict=True)
    )
    if not dialect.is_plain or (columns == (None, None) and (source, target) != (0, 1)):
        chosen = ", ".join(f"{role} = column {index + 1}" for role, index in zip(roles, (source, target), strict=True))
        note(f"{path}: {dialect}, {chosen}")
    for line, row in rows:
        if len(row) <= max(source, target):
            have = "1 column" if len(row) == 1 else f"{len(row)} columns"
            how = "" if dialect.delimiter == "\t" else f" separated by {dialect.separator}"
            raise DataError(f"{path}:{line}: {have}{how}, but column {max(source, target) + 1} is wanted")
        yield Pair(_one_line(row[source]), _one_line(row[target]), line)


def _default_columns(dialect: Dialect) -> tuple[int, int]:
    """The columns called source and target, or src and tgt, else the first two."""
    names = [name.casefold() for name in dialect.header]
    for keys in _DEFAULT_KEYS:
        if all(key in names for key in keys):
            return names.index(keys[0]), names.index(keys[1])
    return 0, 1


def _named_column(path: Path, name: str, dialect: Dialect) -> int:
    if name not in dialect.header:
        raise UsageError(
            f'{path}:1: no column is called "{name}"{nearest(name, dialect.header)}; known: {", ".join(dialect.header)}'
        )
    return dialect.header.index(name)


def read_json_pairs(path: Path, columns: tuple[Column, Column]) -> Iterator[Pair]:
    if any(isinstance(column, int) for column in columns):
        raise UsageError("columns of JSONL are named, not numbered")
    if (columns[0] is None) != (columns[1] is None):
        raise UsageError("of JSONL, name the column of the source and that of the target, or neither")
    return _read_objects(path, None if columns[0] is None else (str(columns[0]), str(columns[1])))


def _read_objects(path: Path, keys: tuple[str, str] | None) -> Iterator[Pair]:
    for number, entry in json_entries(path):
        where = f"{path}:{number}"
        keys = keys or _default_keys(entry, where)
        yield Pair(text_of(entry, keys[0], where), text_of(entry, keys[1], where), number)


def json_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with their line numbers.

    Raises `DataError` for another line.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, _json_object(line, f"{path}:{number}")


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}:{error.colno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand brackets
        raise DataError(f"{where}: JSON that cannot be read: {error}") from None
    if not isinstance(entry, dict):
        raise DataError(f"{where}: every line must be a JSON object such as {_EXAMPLE}")
    nested = entry.get("translation")
    # The form of Hugging Face data sets: {"translation": {"en": ..., "fr": ...}}.
    return {**entry, **nested} if isinstance(nested, dict) else entry


def _default_keys(entry: dict[str, Any], where: str) -> tuple[str, str]:
    for keys in _DEFAULT_KEYS:
        if all(key in entry for key in keys):
            return keys
    known = ", ".join(entry)
    texts = [key for key, value in entry.items() if isinstance(value, str)]
    if len(texts) < 2:
        raise DataError(f"{where}: holds no two texts, source and target; its keys are: {known or 'none'}")
    example = " ".join(
        f"--{side}-column {shlex.quote(key)}" for side, key in zip(("source", "target"), texts, strict=False)
    )
    raise DataError(
        f"{where}: neither source and target nor src and tgt are keys; name the two, as {example}; its keys are:"
        f" {known}"
    )


def text_of(entry: dict[str, Any], key: str, where: str) -> str:
    """Return the text under `key`, on one line.

    Raises `DataError` where there is none.
    """
    if key not in entry:
        raise DataError(f'{where}: no key is called "{key}"{nearest(key, entry)}; known: {", ".join(entry)}')
    text = entry[key]
    if type(text) is int:  # a label is often a number; true and false are of type bool
        return str(text)
    if not isinstance(text, str):
        raise DataError(f'{where}: "{key}" must be a text, not {type(text).__name__}')
    if _HALF_CHARACTER.search(text):
        raise DataError(f'{where}: "{key}" holds half of a surrogate pair (\\ud800 to \\udfff), which is no character')
    return _one_line(text)


def _one_line(text: str) -> str:
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text
