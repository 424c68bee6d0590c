"""Objects of JSONL files, one a line, and pairs of texts out of objects."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dikkat.data.pairs import Pair
from dikkat_runtime.errors import DataError, UsageError, nearest
from dikkat_runtime.rows.line_rows import json_entries
from dikkat_runtime.rows.parquet_rows import parquet_entries

Column = str | int | None
"""A header name, a 1-based number (also as digits in a string), or the default of the format."""
DEFAULT_KEYS = (("source", "target"), ("src", "tgt"))
_LINE_BREAKS = re.compile(r"[\r\n]+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def read_object_pairs(path: Path, columns: tuple[Column, Column], suffix: str) -> Iterator[Pair]:
    """Yield pairs of the objects of a file under two keys, by default source and target, or src and tgt.

    Raises `UsageError` at once, `DataError` while reading.
    """
    kind = "Parquet" if suffix == ".parquet" else "JSONL"
    if any(isinstance(column, int) for column in columns):
        raise UsageError("columns of {kind} are named, not numbered", kind)
    if (columns[0] is None) != (columns[1] is None):
        raise UsageError("of {kind}, name the column of the source and that of the target, or neither", kind)
    return _read_objects(
        path, None if columns[0] is None else (str(columns[0]), str(columns[1])), object_entries(path, suffix)
    )


def _read_objects(
    path: Path, keys: tuple[str, str] | None, entries: Iterator[tuple[int, dict[str, Any]]]
) -> Iterator[Pair]:
    for number, entry in entries:
        where = f"{path}:{number}"
        keys = keys or _default_keys(entry, where)
        yield Pair(text_of(entry, keys[0], where), text_of(entry, keys[1], where), number)


def object_entries(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a `.jsonl` file with their lines, or the rows of a `.parquet` table with their numbers.

    A `translation` of several fields gives these as well, as in data sets of Hugging Face.
    """
    for number, entry in parquet_entries(path) if kind == ".parquet" else json_entries(path):
        nested = entry.get("translation")
        yield number, {**entry, **nested} if isinstance(nested, dict) else entry


def _default_keys(entry: dict[str, Any], where: str) -> tuple[str, str]:
    for keys in DEFAULT_KEYS:
        if all(key in entry for key in keys):
            return keys
    known = ", ".join(entry)
    texts = [key for key, value in entry.items() if isinstance(value, str)]
    if len(texts) < 2:
        raise DataError("{where}: holds no two texts, source and target; its keys are: {known}", where, known or "none")
    example = " ".join(
        f"--{side}-column {shlex.quote(key)}" for side, key in zip(("source", "target"), texts, strict=False)
    )
    raise DataError(
        "{where}: neither source and target nor src and tgt are keys; name the two, as {example}; its keys are: {known}"
    ).fill(where, example, known)


def text_of(entry: dict[str, Any], key: str, where: str) -> str:
    """The text under `key`, on one line; raises `DataError` where there is none."""
    if key not in entry:
        raise DataError('{where}: no key is called "{key}"{nearest}; known: {known}').fill(
            where, key, nearest(key, entry), ", ".join(entry)
        )
    text = entry[key]
    if type(text) is int:  # a label is often a number; true and false are of type bool
        return str(text)
    if not isinstance(text, str):
        raise DataError('{where}: "{key}" must be a text, not {name}', where, key, type(text).__name__)
    if _HALF_CHARACTER.search(text):
        raise DataError(
            '{where}: "{key}" holds half of a surrogate pair (\\ud800 to \\udfff), which is not a character'
        ).fill(where, key)
    return one_line(text)


def one_line(text: str) -> str:
    """The text with a space for each run of line breaks."""
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text
