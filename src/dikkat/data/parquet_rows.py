"""Rows of a Parquet table as objects, a batch at a time, so that memory does not grow with the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.text.text_files import reading_errors

_ROWS = 1024
"""Rows in memory at a time."""
_READ_AT_ONCE = 1 << 20
"""Bytes of a column that are read at a time."""


def parquet_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows with their numbers from 1: columns of text, numbers, lists and structures, and no others.

    A column `translation` of structures gives its fields as well, as in data sets of Hugging Face. Raises `UsageError`
    where pyarrow is not installed, `MissingInputError`, or `DataError` for a damaged table.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError("{path}: needs pyarrow; pip install 'dikkat[parquet]'", path) from None
    number = 0
    with reading_errors(path), path.open("rb") as file:
        with _damage(path, pyarrow.ArrowException):
            # not read ahead, which would hold a whole group of rows
            table = parquet.ParquetFile(file, pre_buffer=False, buffer_size=_READ_AT_ONCE)
            names = [field.name for field in table.schema_arrow if _may_be_text(pyarrow.types, field.type)]
            batches = table.iter_batches(batch_size=_ROWS, columns=names, use_threads=False)
        while True:
            with _damage(path, pyarrow.ArrowException):
                batch = next(batches, None)
                rows = [] if batch is None else batch.to_pylist()
            if batch is None:
                break
            for row in rows:
                number += 1
                nested = row.get("translation")
                yield number, {**row, **nested} if isinstance(nested, dict) else row
    if not number:
        raise DataError("{path}: the table has no rows", path)


def _may_be_text(types: Any, kind: Any) -> bool:
    """Whether a column may hold texts or labels; vectors, pictures and the like are not read."""
    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _may_be_text(types, kind.value_type)
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_text or types.is_integer(kind) or types.is_struct(kind))


@contextmanager
def _damage(path: Path, kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (kind, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = " ".join(str(error).split())
        raise DataError("{path}: damaged, or not a Parquet table ({error}); fetch the file again", path, what) from None
