"""Rows that are lines or records of a text file; the text around the new values stays, byte by byte."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol

from dikkat_runtime.errors import DataError, UsageError, msg, plural
from dikkat_runtime.files import MAX_LINE_LENGTH, reading_errors
from dikkat_runtime.rows.contract import (
    CHUNK_BYTES,
    CHUNK_CHARACTERS,
    CHUNK_ROWS,
    Chunk,
    Column,
    Failure,
    Packing,
    RowWriter,
    Values,
)
from dikkat_runtime.rows.dialect import Dialect, find_dialect, first_lines, split_rows
from dikkat_runtime.rows.packed_files import packing_into, read_lines, unpacked
from dikkat_runtime.text import text_files

BOM = b"\xef\xbb\xbf"
_UTF16_BYTE_ORDER = (b"\xff\xfe", b"\xfe\xff")
_EXAMPLE = '{"source": "...", "target": "..."}'
USUAL_COLUMNS = ("text", "source", "sentence")
"""Names of the column that is taken where none is named."""


class RowError(Exception):
    """A row holds no text to work on."""


@dataclass(slots=True)
class Record:
    """One row as it stands in the file."""

    size: int
    """The number of its bytes."""
    written: Callable[[Values | None], bytes]
    """Returns the row with new values, which are None where it has no text."""
    text: Callable[[], str | None]
    """Returns its text, None for none. Raises `RowError`."""


class RecordFormat(Protocol):
    """A format decides where the records of a text file begin and end."""

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield the records of the lines of a file. Raises `DataError`."""

    def head(self) -> bytes:
        """Return what stands before the first row in the output. Raises `UsageError` for a name that is taken."""


class LineReader:
    """Reads the rows of a text file."""

    def __init__(self, raw: IO[bytes], path: Path, packing: Packing, records: RecordFormat) -> None:
        self._raw, self._path, self._packing, self._format = raw, path, packing, records
        self._size = max(1, raw.seek(0, 2))
        raw.seek(0)

    @property
    def fraction(self) -> float:
        """The share of the packed bytes that was read; a little more than that of the rows."""
        return min(1.0, self._raw.tell() / self._size)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows. Raises `DataError` or `MissingInputError`."""
        with reading_errors(self._path):
            lines = read_lines(unpacked(self._raw, self._packing, self._path))
            records = self._format.records(_in_utf8(lines, self._path))
        number, characters, size, chunk = 0, 0, 0, Chunk([], [])
        while True:
            with reading_errors(self._path):
                record = next(records, None)
            if record is None:
                break
            number += 1
            text = None
            try:
                text = record.text()
            except RowError as error:
                chunk.failures.append(Failure(number, str(error)))
            chunk.rows.append(record)
            chunk.texts.append(text)
            characters += len(text or "")
            size += record.size
            if len(chunk.rows) == CHUNK_ROWS or characters > CHUNK_CHARACTERS or size > CHUNK_BYTES:
                yield chunk
                characters, size, chunk = 0, 0, Chunk([], [])
        # a file without rows still has a header
        yield chunk

    def writer(self, file: IO[bytes]) -> RowWriter:
        return _LineWriter(file, self._path, self._packing, self._format)


class _LineWriter:
    def __init__(self, file: IO[bytes], path: Path, packing: Packing, records: RecordFormat) -> None:
        head = records.head()
        self._packed = packing_into(file, packing, path)
        self._stream = self._packed.__enter__()
        self._stream.write(head)

    def write(self, chunk: Chunk, answers: Sequence[Values | None]) -> None:
        pairs = zip(chunk.rows, answers, strict=True)
        self._stream.write(b"".join(record.written(values) for record, values in pairs))

    def close(self) -> None:
        self._packed.__exit__(None, None, None)


def _in_utf8(lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield all lines. Raises `DataError` for those of UTF-16, of which many would pass for UTF-8 with zeros in it."""
    first = next(lines, b"")
    if first.startswith(_UTF16_BYTE_ORDER):
        raise DataError("{name}: looks like UTF-16; convert with iconv -f UTF-16 -t UTF-8", path)
    if first:
        yield first
    yield from lines


def decoded(content: bytes) -> str:
    """Return text from UTF-8. Raises `RowError` naming the first byte that is not."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowError(msg("byte 0x{byte} is not valid UTF-8", f"{content[error.start]:02X}")) from None


def split_end(line: bytes) -> tuple[bytes, bytes]:
    """Return a line and its end: a line feed, after which a carriage return may stand, or nothing."""
    body = line.removesuffix(b"\n")
    body = body.removesuffix(b"\r") if body is not line else body
    return body, line[len(body) :]


def require_short(line: bytes, path: Path, number: int) -> bytes:
    """Return the line. Raises `DataError` for one that is longer than `MAX_LINE_LENGTH`."""
    if len(line) > MAX_LINE_LENGTH:
        raise DataError(
            "{path}:{number}: the line has more than {max_line_length:,} bytes; does its name tell its format?"
        ).fill(path, number, MAX_LINE_LENGTH)
    return line


def choose_column(path: Path, asked: str, text_columns: Sequence[str], all_columns: Sequence[str]) -> str:
    """Return the name of the column with the texts: the one `asked` for, else a usual one, else the only one of text.

    Raises `DataError` where there is no such column, and `UsageError` where one must be named.
    """
    names = ", ".join(all_columns) or "none"
    if asked:
        if asked not in all_columns:
            raise DataError("{path}: has no column {column}; its columns are: {columns}", path, asked, names)
        if asked not in text_columns:
            raise DataError("{path}: the column {column} holds no text; columns of text: {columns}").fill(
                path, asked, ", ".join(text_columns)
            )
        return asked
    usual = [name for name in USUAL_COLUMNS if name in text_columns]
    if usual or len(text_columns) == 1:
        return (usual or list(text_columns))[0]
    raise UsageError(
        "{path}: which column is the text? Name one with --column; its columns are: {columns}", path, names
    )


def require_new(path: Path, columns: Sequence[Column], existing: Sequence[str]) -> None:
    """Raises `UsageError` where a new column has the name of one that is there."""
    for column in columns:
        if column.name in existing:
            raise UsageError("{path}: already has a column {name}; give another --output-column", path, column.name)


class PlainText:
    """Text with a row a line; `line_of` returns what the command for lines prints for a text and its values."""

    def __init__(self, line_of: Callable[[str, Values], str]) -> None:
        self._line_of = line_of

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        for number, line in enumerate(lines):
            line = line.removeprefix(BOM) if number == 0 else line
            yield Record(len(line), partial(self._written, line), partial(self._text, line))

    def _text(self, line: bytes) -> str:
        if len(line) > MAX_LINE_LENGTH:
            raise RowError(msg("the line has more than {max_line_length:,} bytes", MAX_LINE_LENGTH))
        return decoded(split_end(line)[0])

    def _written(self, line: bytes, values: Values | None) -> bytes:
        return b"\n" if values is None else f"{self._line_of(self._text(line), values)}\n".encode("utf-8", "replace")

    def head(self) -> bytes:
        return b""


class JsonLines:
    """An object of JSON a line; new columns are put at its end."""

    def __init__(self, path: Path, column: str, new: Sequence[Column]) -> None:
        self._path, self._column, self._new = path, column, new
        self._names, self._mark = list[str](), b""

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield a record a line. Raises `DataError` where the first object lacks the column, or a line is too long."""
        column = ""
        for number, line in enumerate(lines, start=1):
            require_short(line, self._path, number)
            if number == 1 and line.startswith(BOM):
                self._mark, line = BOM, line.removeprefix(BOM)
            raw, end = split_end(line)
            content, problem = _object(raw)
            if not column and content:
                column, self._names = self._choose(content), list(content)
            text = partial(self._text, content, problem, column) if raw.strip() else lambda: None
            yield Record(len(raw), partial(self._written, raw, end, content, problem), text)

    def _text(self, content: dict[str, Any], problem: str, column: str) -> str | None:
        if problem:
            raise RowError(problem)
        if column not in content:
            raise RowError(msg("has no column {column}", column))
        for new in self._new:
            if new.name in content:
                raise RowError(msg("already has a column {name}", new.name))
        text = content[column]
        if text is not None and not isinstance(text, str):
            raise RowError(msg("the column {column} holds no text", column))
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise RowError(msg("the column {column} holds half of a surrogate pair", column))
        return text

    def _written(self, raw: bytes, end: bytes, content: dict[str, Any], problem: str, values: Values | None) -> bytes:
        if not raw.strip():
            return raw + end
        pairs = zip(self._new, values or [None] * len(self._new), strict=True)
        new = {column.name: json_value(value) for column, value in pairs if column.name not in content}
        added = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in new.items())
        if problem:
            return f"{{{added}}}".encode() + end
        before = raw.rstrip()[:-1].rstrip()
        return before + (b", " if content and added else b"") + added.encode() + b"}" + end

    def _choose(self, content: dict[str, Any]) -> str:
        """The column with the texts, whose text in the first object may be null."""
        texts = [name for name, value in content.items() if isinstance(value, str)]
        maybe = [name for name, value in content.items() if value is None or isinstance(value, str)]
        takes_null = self._column or not texts or any(name in maybe for name in USUAL_COLUMNS)
        return choose_column(self._path, self._column, maybe if takes_null else texts, list(content))

    def head(self) -> bytes:
        """Return the mark before the first object. Raises `UsageError` where that has a new column already."""
        require_new(self._path, self._new, self._names)
        return self._mark


def _object(raw: bytes) -> tuple[dict[str, Any], str]:
    """Return the object on a line, and what is wrong with another line."""
    try:
        content = json.loads(decoded(raw)) if raw.strip() else {}
    except RowError as error:
        return {}, str(error)
    except (ValueError, RecursionError) as error:
        return {}, msg("is not valid JSON ({error})", error)
    return (content, "") if isinstance(content, dict) else ({}, msg("is not a JSON object"))


def json_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with the lines that they stand on; raises `DataError` for another line."""
    for number, line in enumerate(text_files.read_lines(path), start=1):
        if line.strip():
            yield number, json_object(line, f"{path}:{number}")


def json_object(line: str, where: str) -> dict[str, Any]:
    """Return the object on a line. Raises `DataError` for anything else."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError("{where}:{column}: not valid JSON: {error}", where, error.colno, error.msg) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand brackets
        raise DataError("{where}: JSON that cannot be read: {error}", where, error) from None
    if not isinstance(entry, dict):
        raise DataError("{where}: every line must be a JSON object such as {example}", where, _EXAMPLE)
    return entry


def json_value(value: Any) -> str:
    """Return a value of a new column as JSON."""
    if hasattr(value, "tolist"):
        # as many digits as float32 needs to be read back exactly
        return f"[{', '.join(map(str, value))}]"
    return json.dumps(value, ensure_ascii=False)


# Tables in text: tabs without quotation marks (TSV), or cells that may stand in quotation marks (CSV).


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
        bodies = [split_end(line)[0].decode("utf-8", "replace") for line in sample]
        self._dialect = find_dialect(bodies, str(self._path))
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
            body, end = split_end(raw)
            text = partial(self._text, cells, index, width) if body else lambda: None
            yield Record(len(raw), partial(self._written, body, end, width - len(cells)), text)

    def _text(self, cells: list[str], index: int, width: int) -> str:
        if len(cells) != width:
            raise RowError(msg("has {columns}, not {expected}", plural(len(cells), "column"), width))
        return decoded(cells[index].encode("utf-8", "surrogateescape"))

    def _written(self, body: bytes, end: bytes, missing: int, values: Values | None) -> bytes:
        if not body or missing < 0:
            return body + end
        cells = [""] * len(self._new) if values is None else [_as_text(value) for value in values]
        return body + self.joined([*[""] * missing, *cells]) + end

    def head(self) -> bytes:
        """Return the header with the new columns. Raises `UsageError` for a name that is taken."""
        require_new(self._path, self._new, self._header)
        if not self._head:
            return b""
        body, end = split_end(self._head)
        return body + self.joined([column.name for column in self._new]) + (end or b"\n")

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


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, list):
        return "|".join(map(str, value))
    return " ".join(map(str, value)) if hasattr(value, "tolist") else str(value)
