"""Where a row ends, and how a new cell is written, byte by byte."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from dikkat_runtime.rows.line_rows import Table, split_end


@pytest.mark.parametrize(
    ("line", "body", "end"),
    [
        (b"a\n", b"a", b"\n"),
        (b"a\r\n", b"a", b"\r\n"),
        (b"a\r\r\n", b"a\r", b"\r\n"),
        (b"a", b"a", b""),
        # a return without a line feed is a character of the row
        (b"a\r", b"a\r", b""),
        (b"\n", b"", b"\n"),
        (b"", b"", b""),
    ],
)
def test_a_row_ends_at_a_line_feed_with_the_return_before_it(line: bytes, body: bytes, end: bytes) -> None:
    assert split_end(line) == (body, end)


CELLS = ["plain", "a,b", 'say "no"', " before", "behind ", "two\nlines", "a\rb", "", "ş;|"]


def test_a_cell_is_quoted_where_a_reader_would_lose_something() -> None:
    table = Table(Path("a.csv"), "1", [])
    list(table.records(iter([b"x,y\n"])))
    written = table.joined(CELLS).decode()
    assert next(csv.reader(io.StringIO(written, newline=""), strict=True)) == ["", *CELLS]
    assert '," before","behind ",' in written, "spreadsheets take spaces off the ends of a bare cell"
    assert written.startswith(',plain,"a,b",')


def test_a_cell_without_quotation_marks_is_on_one_line_in_one_column() -> None:
    table = Table(Path("a.tsv"), "1", [])
    list(table.records(iter([b"x\ty\n"])))
    assert table.joined(["a\tb\r\nc", '"d"']) == b'\ta b  c\t"d"'
