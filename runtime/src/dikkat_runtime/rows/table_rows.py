"""Tables in text: tabs without quotation marks (TSV), or cells that may stand in quotation marks (CSV)."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, msg, plural
from dikkat_runtime.rows.contract import Column, Values
from dikkat_runtime.rows.dialect import Dialect, find_dialect, first_lines, split_rows
from dikkat_runtime.rows.line_rows import (
    BOM,
    Record,
    RowError,
    choose_column,
    decoded,
    require_new,
    require_short,
    split_end,
)


class Table:
    """A table; its first record names the columns, unless the column with the texts is asked for by number.

    Then it does where it looks like names.
    """

    def __init__(self, path: Path, column: str, new: Sequence[Column]) -> None:
        self._path, self._column, self._new = path, column, new
        self._dialect = Dialect("\t", is_quoted=False, num_columns=0)
        self._header, self._head = list[str](), b""

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield the records after the header.

        Raises `DataError` where there is no such column, a line is too long, or quotation marks are not closed.
        """
        sample = first_lines(lines)
        if not sample:
            return
        mark = BOM if sample[0].startswith(BOM) else b""
        sample[0] = sample[0].removeprefix(BOM)
        self._dialect = find_dialect(
            [split_end(line)[0].decode("utf-8", "replace") for line in sample], str(self._path)
        )
        rows = self._split(chain(sample, lines))
        is_numbered = self._column.isdecimal()
        if not is_numbered or self._dialect.header:
            head, cells = next(rows)
            self._header = [cell.strip() for cell in cells]
            self._head = mark + head
        index = (
            int(self._column) - 1
            if is_numbered
            else self._header.index(choose_column(self._path, self._column, self._header, self._header))
        )
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
        return "".join(self._dialect.delimiter + self._cell(cell) for cell in cells).encode("utf-8", "replace")

    def _cell(self, text: str) -> str:
        if not self._dialect.is_quoted:
            return text.translate({9: " ", 10: " ", 13: " "})
        if any(mark in text for mark in (self._dialect.delimiter, '"', "\n", "\r")) or text != text.strip():
            return '"' + text.replace('"', '""') + '"'
        return text

    def _split(self, lines: Iterator[bytes]) -> Iterator[tuple[bytes, list[str]]]:
        pending = list[bytes]()

        def feed() -> Iterator[str]:
            for number, line in enumerate(lines, start=1):
                pending.append(require_short(line, self._path, number))
                yield line.decode("utf-8", "surrogateescape")

        for _, cells in split_rows(feed(), self._dialect, str(self._path)):
            yield b"".join(pending), cells
            pending.clear()


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
