"""Tables in text: tabs without quotation marks (TSV), or cells that may stand in quotation marks (CSV)."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, msg, plural
from dikkat_runtime.files import MAX_LINE_LENGTH
from dikkat_runtime.shards.line_rows import (
    BOM,
    Record,
    RowError,
    choose_column,
    decoded,
    require_new,
    require_short,
    split_end,
)
from dikkat_runtime.shards.rows import Column, Values

_DELIMITERS = (",", ";", "\t", "|")


class Table:
    """A table; its first record names the columns, unless the column with the texts is asked for by number."""

    def __init__(self, path: Path, column: str, new: Sequence[Column], *, is_quoted: bool) -> None:
        self._path, self._column, self._new, self._is_quoted = path, column, new, is_quoted
        self._delimiter = "\t"
        self._header, self._head = list[str](), b""

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield the records after the header.

        Raises `DataError` where there is no such column, a line is too long, or quotation marks are not closed.
        """
        first = next(lines, None)
        if first is None:
            return
        body = require_short(first.removeprefix(BOM), self._path, 1)
        has_header = not self._column.isdecimal()
        if self._is_quoted:
            self._delimiter = self._sniffed(body)
        split = self._quoted if self._is_quoted else self._unquoted
        rows = split(_chained(body, lines))
        if has_header:
            self._head, cells = next(rows)
            self._header = [cell.strip() for cell in cells]
            index = self._header.index(choose_column(self._path, self._column, self._header, self._header))
            self._head = first[: len(first) - len(body)] + self._head
        else:
            index = int(self._column) - 1
        width = len(self._header)
        for raw, cells in rows:
            width = width or len(cells)
            if not 0 <= index < width:
                raise DataError("{path}: has no column {column}, only {columns}; --column counts from 1").fill(
                    self._path, self._column, plural(width, "column")
                )
            yield _Row(raw, cells, index, width, self)

    def head(self) -> bytes:
        """Return the header with the new columns. Raises `UsageError` for a name that is taken."""
        require_new(self._path, self._new, self._header)
        if not self._head:
            return b""
        body, end = split_end(self._head)
        return body + self.joined([column.name for column in self._new]) + (end or b"\n")

    @property
    def num_new(self) -> int:
        """The number of new columns."""
        return len(self._new)

    def joined(self, cells: Sequence[str]) -> bytes:
        """Return cells as they stand after others, each with the delimiter before it."""
        return "".join(self._delimiter + self._cell(cell) for cell in cells).encode("utf-8", "replace")

    def _cell(self, text: str) -> str:
        if not self._is_quoted:
            return text.translate({9: " ", 10: " ", 13: " "})
        if any(mark in text for mark in (self._delimiter, '"', "\n", "\r")) or text != text.strip():
            return '"' + text.replace('"', '""') + '"'
        return text

    def _sniffed(self, line: bytes) -> str:
        """The delimiter of the header: one that sets the column apart that is asked for, else the commonest."""
        text = split_end(line)[0].decode("utf-8", "replace")
        rows = {mark: next(csv.reader([text], delimiter=mark), []) for mark in _DELIMITERS}
        fitting = [mark for mark, cells in rows.items() if self._column in map(str.strip, cells)]
        return max(fitting or _DELIMITERS, key=lambda mark: len(rows[mark]))

    def _unquoted(self, lines: Iterator[bytes]) -> Iterator[tuple[bytes, list[str]]]:
        for number, line in enumerate(lines, start=1):
            body = split_end(require_short(line, self._path, number))[0]
            yield line, body.decode("utf-8", "surrogateescape").split("\t")

    def _quoted(self, lines: Iterator[bytes]) -> Iterator[tuple[bytes, list[str]]]:
        csv.field_size_limit(MAX_LINE_LENGTH)
        pending = list[bytes]()

        def feed() -> Iterator[str]:
            for number, line in enumerate(lines, start=1):
                pending.append(require_short(line, self._path, number))
                yield line.decode("utf-8", "surrogateescape")

        reader = csv.reader(feed(), delimiter=self._delimiter, strict=True)
        begin = 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                what = msg("not valid CSV ({error}); is a quotation mark left open?", error)
                raise DataError("{host}:{port}: {reason}", self._path, begin, what) from None
            if cells is None:
                return
            begin = reader.line_num + 1
            yield b"".join(pending), cells
            pending.clear()


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


class _Row:
    __slots__ = ("_cells", "_index", "_raw", "_table", "_width")

    def __init__(self, raw: bytes, cells: list[str], index: int, width: int, table: Table) -> None:
        self._raw, self._cells, self._index, self._width, self._table = raw, cells, index, width, table

    @property
    def size(self) -> int:
        return len(self._raw)

    @property
    def _is_blank(self) -> bool:
        return not split_end(self._raw)[0]

    def text(self) -> str | None:
        if self._is_blank:
            return None
        if len(self._cells) != self._width:
            raise RowError(msg("has {columns}, not {expected}", plural(len(self._cells), "column"), self._width))
        return decoded(self._cells[self._index].encode("utf-8", "surrogateescape"))

    def written(self, values: Values | None) -> bytes:
        if self._is_blank or len(self._cells) > self._width:
            return self._raw
        body, end = split_end(self._raw)
        missing = [""] * (self._width - len(self._cells))
        cells = [""] * self._table.num_new if values is None else [_as_text(value) for value in values]
        return body + self._table.joined([*missing, *cells]) + end


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, list):
        return "|".join(map(str, value))
    return " ".join(map(str, value)) if hasattr(value, "tolist") else str(value)
