"""Rows of a Parquet file, read and written in parts, so that memory does not grow with the file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import MAX_LINE_LENGTH, reading_errors
from dikkat_runtime.rows.contract import CHUNK_BYTES, CHUNK_ROWS, Chunk, Column, Failure, RowWriter, Values
from dikkat_runtime.rows.line_rows import choose_column, require_new
from dikkat_runtime.rows.packed_files import pyarrow
from dikkat_runtime.text import text_files

GROUP_ROWS = 1 << 16
"""Most rows of a row group that is written."""
GROUP_BYTES = 32 << 20
"""Bytes in memory after which a row group is written."""
_READ_AT_ONCE = 1 << 20
"""Bytes of a column."""
_ENTRIES = 1024
"""Rows of `parquet_entries` in memory."""


class ParquetReader:
    """Reads a Parquet file. Raises `DataError` for a damaged one and for one without the column."""

    def __init__(self, raw: IO[bytes], path: Path, column: str, new: Sequence[Column]) -> None:
        self._pa, self._path, self._new = pyarrow(path), path, new
        self._file = _opened(raw, path)
        schema = self._file.schema_arrow
        texts = [field.name for field in schema if _is_text(self._pa, field.type)]
        # of columns of one name, the first
        self._index = schema.names.index(choose_column(path, column, texts, schema.names))
        self._read = 0

    @property
    def fraction(self) -> float:
        return min(1.0, self._read / max(1, int(self._file.metadata.num_rows)))

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows. Raises `DataError`."""
        with _errors(self._path, self._pa):
            batches = self._batches()
        while True:
            with _errors(self._path, self._pa):
                batch = next(batches, None)
                if batch is None:
                    return
                texts = batch.column(self._index).to_pylist()
            too_long = [index for index, text in enumerate(texts) if text is not None and _is_too_long(text)]
            reason = msg("a line of the text has more than {max_line_length:,} characters", MAX_LINE_LENGTH)
            failures = [Failure(self._read + index + 1, reason) for index in too_long]
            for index in too_long:
                texts[index] = None
            self._read += batch.num_rows
            yield Chunk(batch, texts, failures)

    def _batches(self) -> Iterator[Any]:
        for rows, groups in _rows_at_once(self._file.metadata):
            yield from self._file.iter_batches(batch_size=rows, row_groups=groups, use_threads=False)

    def writer(self, file: IO[bytes]) -> RowWriter:
        require_new(self._path, self._new, self._file.schema_arrow.names)
        return _ParquetWriter(self._pa, file, self._file, self._new)


@contextmanager
def _errors(path: Path, pa: Any) -> Iterator[None]:
    with reading_errors(path):
        try:
            yield
        except pa.ArrowException as error:
            what = " ".join(str(error).split())
            raise DataError("{path}: damaged, or not Parquet ({error}); restore the file", path, what) from None


def _opened(raw: IO[bytes], path: Path) -> Any:
    with _errors(path, pyarrow(path)):
        import pyarrow.parquet as parquet

        # a column of a row group is read some at a time, not as a whole
        return parquet.ParquetFile(raw, pre_buffer=False, buffer_size=_READ_AT_ONCE)


def parquet_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with their numbers from 1: columns of text, numbers, lists and structures, and no others.

    Raises `UsageError` where pyarrow is not installed, `MissingInputError`, or `DataError` for a damaged table.
    """
    pa, number = pyarrow(path), 0
    with text_files.reading_errors(path), path.open("rb") as raw:
        table = _opened(raw, path)
        names = [field.name for field in table.schema_arrow if _may_be_text(pa, field.type)]
        batches = table.iter_batches(batch_size=_ENTRIES, columns=names, use_threads=False)
        while True:
            with _errors(path, pa):
                rows = [row for batch in islice(batches, 1) for row in batch.to_pylist()]
            if not rows:
                break
            yield from enumerate(rows, start=number + 1)
            number += len(rows)
    if not number:
        raise DataError("{path}: the table has no rows", path)


def _may_be_text(pa: Any, kind: Any) -> bool:
    """Whether a column may hold texts or labels; vectors, pictures and the like are not read."""
    if pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _may_be_text(pa, kind.value_type)
    return _is_text(pa, kind) or bool(pa.types.is_integer(kind) or pa.types.is_struct(kind))


def _rows_at_once(metadata: Any) -> list[tuple[int, list[int]]]:
    """Return how many rows are read at a time, fewer where they are large, and of which groups of like rows."""
    spans = list[tuple[int, int, list[int]]]()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES * group.num_rows // max(1, group.total_byte_size)))
        if spans:
            fewest, most, numbers = spans[-1]
            if max(rows, most) <= 2 * min(rows, fewest):
                spans[-1] = (min(rows, fewest), max(rows, most), [*numbers, number])
                continue
        spans.append((rows, rows, [number]))
    return [(fewest, numbers) for fewest, _, numbers in spans]


def _is_too_long(text: str) -> bool:
    return len(text) > MAX_LINE_LENGTH and max(map(len, text.split("\n"))) > MAX_LINE_LENGTH


def _is_text(pa: Any, kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


class _ParquetWriter:
    def __init__(self, pa: Any, file: IO[bytes], source: Any, columns: Sequence[Column]) -> None:
        import pyarrow.parquet as parquet

        self._pa, self._columns = pa, columns
        kinds = {
            "text": pa.string(),
            "number": pa.float32(),
            "texts": pa.list_(pa.string()),
            "vector": pa.list_(pa.float32()),
        }
        self._types = [kinds[column.kind] for column in columns]
        self._schema = source.schema_arrow
        for column, kind in zip(columns, self._types, strict=True):
            self._schema = self._schema.append(pa.field(column.name, kind))
        self._pending, self._rows, self._bytes = list[Any](), 0, 0
        self._writer = parquet.ParquetWriter(file, self._schema, compression=_compression(source.metadata))

    def write(self, chunk: Chunk, answers: Sequence[Values | None]) -> None:
        new = []
        for index, (column, kind) in enumerate(zip(self._columns, self._types, strict=True)):
            values = [None if answer is None else answer[index] for answer in answers]
            new.append(self._vectors(values) if column.kind == "vector" else self._pa.array(values, kind))
        batch = self._pa.RecordBatch.from_arrays([*chunk.rows.columns, *new], schema=self._schema)
        self._pending.append(batch)
        self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _vectors(self, values: list[Any]) -> Any:
        """Lists of float32 without a Python object a number."""
        lengths = [0 if value is None else len(value) for value in values]
        flat = np.concatenate([value for value in values if value is not None] or [np.zeros(0, np.float32)])
        missing = self._pa.array([value is None for value in values])
        offsets = self._pa.array(np.concatenate([[0], np.cumsum(lengths)]), self._pa.int32())
        return self._pa.ListArray.from_arrays(offsets, self._pa.array(flat, self._pa.float32()), mask=missing)

    def _flush(self) -> None:
        if self._pending:
            table = self._pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _compression(metadata: Any) -> str:
    """That of the first column of the file that was read."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    name = metadata.row_group(0).column(0).compression
    return "none" if name == "UNCOMPRESSED" else str(name).lower()
