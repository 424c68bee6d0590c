"""Rows that are lines or records of a text file; the text around the new values stays, byte by byte."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import MAX_LINE_LENGTH
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
from dikkat_runtime.rows.packed_files import packing_into, read_lines, reading_errors, unpacked
from dikkat_runtime.text import text_files

BOM = b"\xef\xbb\xbf"
_UTF16_BYTE_ORDER = (b"\xff\xfe", b"\xfe\xff")
_EXAMPLE = '{"source": "...", "target": "..."}'
USUAL_COLUMNS = ("text", "source", "sentence")
"""Names of the column that is taken where none is named."""


LineOf = Callable[[str, Values], str]
"""From a text and its values to the line that the command for lines prints."""


class RowError(Exception):
    """A row holds no text to work on."""


class Record(Protocol):
    """One row as it stands in the file."""

    @property
    def size(self) -> int:
        """The number of its bytes."""

    def text(self) -> str | None:
        """Return its text, None for none. Raises `RowError`."""

    def written(self, values: Values | None) -> bytes:
        """Return the row with new values, which are None where it has no text."""


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
        """Return what writes records with their new values to `file`."""
        return _LineWriter(file, self._path, self._packing, self._format)


class _LineWriter:
    def __init__(self, file: IO[bytes], path: Path, packing: Packing, records: RecordFormat) -> None:
        self._format = records
        self._has_begun = False
        self._packed = packing_into(file, packing, path)
        self._stream = self._packed.__enter__()

    def write(self, chunk: Chunk, answers: Sequence[Values | None]) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._stream.write(self._format.head())
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
    """Text with a row a line; the output is as the command for lines prints it."""

    def __init__(self, line_of: LineOf) -> None:
        self._line_of = line_of

    def records(self, lines: Iterator[bytes]) -> Iterator[Record]:
        """Yield a record a line."""
        for number, line in enumerate(lines):
            yield _TextLine(line.removeprefix(BOM) if number == 0 else line, self._line_of)

    def head(self) -> bytes:
        """Return nothing."""
        return b""


class _TextLine:
    __slots__ = ("_line", "_line_of", "_text")

    def __init__(self, line: bytes, line_of: LineOf) -> None:
        self._line, self._line_of, self._text = line, line_of, ""

    @property
    def size(self) -> int:
        return len(self._line)

    def text(self) -> str:
        if len(self._line) > MAX_LINE_LENGTH:
            raise RowError(msg("the line has more than {max_line_length:,} bytes", MAX_LINE_LENGTH))
        self._text = decoded(split_end(self._line)[0])
        return self._text

    def written(self, values: Values | None) -> bytes:
        return b"\n" if values is None else f"{self._line_of(self._text, values)}\n".encode("utf-8", "replace")


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
            record = _JsonLine(line, column, self._new)
            if not column and record.content:
                column = self._choose(record.content)
                record.column, self._names = column, list(record.content)
            yield record

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


class _JsonLine:
    __slots__ = ("_end", "_new", "_problem", "_raw", "column", "content")

    def __init__(self, line: bytes, column: str, new: Sequence[Column]) -> None:
        self._new = new
        self._raw, self._end = split_end(line)
        self.column, self.content, self._problem = column, dict[str, Any](), ""
        if not self._raw.strip():
            return
        try:
            content = json.loads(decoded(self._raw))
        except RowError as error:
            self._problem = str(error)
        except (ValueError, RecursionError) as error:
            self._problem = msg("is not valid JSON ({error})", error)
        else:
            if isinstance(content, dict):
                self.content = content
            else:
                self._problem = msg("is not a JSON object")

    @property
    def size(self) -> int:
        return len(self._raw)

    def text(self) -> str | None:
        if self._problem:
            raise RowError(self._problem)
        if not self._raw.strip():
            return None
        if self.column not in self.content:
            raise RowError(msg("has no column {column}", self.column))
        for column in self._new:
            if column.name in self.content:
                raise RowError(msg("already has a column {name}", column.name))
        text = self.content[self.column]
        if text is not None and not isinstance(text, str):
            raise RowError(msg("the column {column} holds no text", self.column))
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise RowError(msg("the column {column} holds half of a surrogate pair", self.column))
        return text

    def written(self, values: Values | None) -> bytes:
        if not self._problem and not self._raw.strip():
            return self._raw + self._end
        pairs = zip(self._new, values or [None] * len(self._new), strict=True)
        new = {column.name: json_value(value) for column, value in pairs if column.name not in self.content}
        added = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in new.items())
        if self._problem:
            return f"{{{added}}}".encode() + self._end
        before = self._raw.rstrip()[:-1].rstrip()
        return before + (b", " if self.content and added else b"") + added.encode() + b"}" + self._end


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
