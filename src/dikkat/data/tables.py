"""Detect how a table of text is written: its separator, whether quotation marks count, and its header.

The separator is the one that gives the same number of columns to nearly all of the first few hundred records, counted
outside quotation marks. Nothing else is read of a table than these records before its rows are.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from dikkat.data.table_headers import has_header
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.packed import without_packing
from dikkat_runtime.text.text_files import read_text_lines

SAMPLE_LINES = 400
"""Lines that are read to detect the dialect."""
_SAMPLE_CHARACTERS = 2_000_000
_CONSISTENT = 0.9
"""Least share of records with the same number of columns."""
_DELIMITERS = ("\t", ";", "|", ",")
"""Where several fit equally, the one that is least often part of a text or a number."""
_NAMES = {"\t": msg("tab"), ";": "';'", "|": "'|'", ",": "','"}
_SHOWN = 60
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

Row = tuple[int, list[str]]
"""The line that a row begins on, and its cells."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Hold how a table is written."""

    delimiter: str
    is_quoted: bool
    """Whether a cell may stand in quotation marks, with separators and line breaks in it."""
    num_columns: int
    """Number of columns of nearly every row."""
    header: tuple[str, ...] = ()
    """Names of the columns, empty where the first row is data."""

    def __str__(self) -> str:
        header = ""
        if self.header:
            header = msg(", a header row ({header})", ", ".join(f"“{_shorten(name)}”" for name in self.header))
        return msg("columns separated by {separator}{header}", self.separator, header or msg(", no header row"))

    @property
    def separator(self) -> str:
        """Return the delimiter by name, for messages."""
        return _NAMES[self.delimiter]

    @property
    def is_plain(self) -> bool:
        """Return whether it is what a .tsv is expected to be: tabs, no quotation marks, no header."""
        return self.delimiter == "\t" and not self.is_quoted and not self.header


def sniff(path: Path) -> Dialect:
    """Return the dialect of a table in a file. Raises what `read_table` raises at its first row."""
    return read_table(path)[0]


def read_table(path: Path, *, lenient: bool = False) -> tuple[Dialect, Iterator[Row]]:
    """Return the dialect of the table in a file, and an iterator over all its rows, a header among them.

    Empty lines are not rows. Raises `DataError` where no separator gives the rows the same number of columns, and the
    iterator for bad quotation marks and for a row of too many columns, with file and line.
    """
    lines = _one_row_each(read_text_lines(path, lenient=lenient), path)
    sample = _sample(lines)
    dialect = find_dialect(sample, path)
    return dialect, _checked(_rows(chain(sample, lines), dialect, path), dialect, path)


def find_dialect(sample: Sequence[str], path: Path) -> Dialect:
    """Return the dialect of a table that begins with the lines of `sample`. Raises `DataError` naming `path`."""
    plain = [line.split("\t") for line in sample if line]
    by_tabs = without_packing(path).lower().endswith(".tsv")
    delimiter, is_quoted = _choose(sample, plain, by_tabs)
    if not delimiter:
        raise _no_columns(path, sample)
    rows = list(_records(sample, delimiter)) if is_quoted else plain
    dialect = Dialect(delimiter, is_quoted, _agreement(map(len, rows))[1])
    return replace(dialect, header=tuple(cell.strip() for cell in rows[0])) if has_header(rows) else dialect


def _one_row_each(lines: Iterator[str], path: Path) -> Iterator[str]:
    """The lines, none of which may hold several rows that end as on old Macs; else raises `DataError`."""
    for number, line in enumerate(lines, start=1):
        before, carriage_return, after = line.partition("\r")
        if carriage_return and '"' not in line and any(mark in before and mark in after for mark in _DELIMITERS):
            raise DataError(
                "{path}:{line}: several rows in one line, with carriage returns (\\r) between them, as old Macs "
                "end lines; tr '\\r' '\\n' makes lines of them"
            ).fill(path, number)
        yield line


def _sample(lines: Iterator[str]) -> list[str]:
    sample, size = [], 0
    for line in islice(lines, SAMPLE_LINES):
        sample.append(line)
        size += len(line)
        if size > _SAMPLE_CHARACTERS:
            break
    return sample


def _choose(sample: Sequence[str], plain: list[list[str]], by_tabs: bool) -> tuple[str, bool]:
    """Separator and quoting; no separator where none fits."""
    tabs = sum(len(row) > 1 for row in plain)
    if tabs < len(plain) and _marks_join_lines(sample, len(plain)):
        return "\t", True
    if tabs and (tabs >= _CONSISTENT * len(plain) or (by_tabs and 2 * tabs >= len(plain))):
        return "\t", _are_quotes_meant(plain)
    shares = {}
    for delimiter in _DELIMITERS[1:]:
        share, columns = _agreement(map(len, _records(sample, delimiter)))
        if columns > 1 and share >= _CONSISTENT:
            shares[delimiter] = round(share, 2)
    return max(shares, key=lambda delimiter: shares[delimiter], default=""), True


def _marks_join_lines(sample: Sequence[str], num_lines: int) -> bool:
    """Whether lines without a tab are parts of cells in quotation marks, so that no row is without."""
    counts = [len(row) for row in _records(sample, "\t")]
    # after a mark that was left open few rows are found
    return min(counts, default=0) > 1 and num_lines / 2 <= len(counts) < num_lines


def _agreement(counts: Iterable[int]) -> tuple[float, int]:
    """Share of the rows with the commonest number of columns, and that number."""
    counter = Counter(counts)
    columns, rows = max(counter.items(), key=lambda item: item[1], default=(0, 0))
    return rows / max(1, counter.total()), columns


def _are_quotes_meant(rows: list[list[str]]) -> bool:
    """Whether the marks in rows that were split at tabs enclose cells: nearly all have them, or they are doubled."""
    cells = [cell for row in rows for cell in row]
    marked = [cell for cell in cells if cell.startswith('"')]
    if not marked or not all(map(_QUOTED.fullmatch, marked)):
        return False
    return len(marked) >= _CONSISTENT * len(cells) or any('""' in cell[1:-1] for cell in marked)


def _records(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Rows up to the first that is not valid."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        yield from (row for row in reader if row)
    except csv.Error:
        return


def _rows(lines: Iterable[str], dialect: Dialect, path: Path) -> Iterator[Row]:
    if not dialect.is_quoted:
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line)
        return
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=dialect.delimiter, strict=True)
    begin = 1
    try:
        for row in reader:
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            "{path}:{line}: not valid CSV ({error}); is a quotation mark left open?", path, begin, error
        ) from None


def _checked(rows: Iterator[Row], dialect: Dialect, path: Path) -> Iterator[Row]:
    """The rows, as long as none has a separator too many: its cells would be taken from the wrong columns."""
    if dialect.delimiter == "\t":  # no text has tabs in it; further columns are remarks
        yield from rows
        return
    for line, row in rows:
        if any(row[dialect.num_columns :]):
            raise DataError(
                "{path}:{line}: {count} columns, but the rows before have {expected} (separated by {separator}); "
                "put a text with {separator} in it in quotation marks"
            ).fill(path, line, len(row), dialect.num_columns, dialect.separator)
        yield line, row


def _no_columns(path: Path, sample: Sequence[str]) -> DataError:
    lengths = {delimiter: [len(row) for row in _records(sample, delimiter)] for delimiter in _DELIMITERS}
    best = max(
        _DELIMITERS,
        key=lambda delimiter: sum(count > 1 for count in lengths[delimiter]) / (len(lengths[delimiter]) or 1),
    )
    share, columns = _agreement(lengths[best])
    row, count = next(((row, count) for row, count in enumerate(lengths[best], 1) if count != columns), (1, columns))
    first = next((line for line in sample if line.strip()), "")
    if columns < 2:
        return DataError(
            "{path}:1: 1 column: no tab, semicolon, comma or | parts the rows; the first is “{text}”"
        ).fill(path, _shorten(first))
    return DataError(
        "{path}: no tab, semicolon, comma or | gives its rows the same number of columns: with {separator}, "
        "{share:.0%} have {columns}, but row {row} has {count}; texts with it in them need quotation marks"
    ).fill(path, _NAMES[best], share, columns, row, count)


def _shorten(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}…"
