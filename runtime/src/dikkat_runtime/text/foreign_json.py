"""Read JSON of other people within bounds: a regular file, not large, of few parts, and without deep nesting."""

import json
import os
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError
from dikkat_runtime.files import reading_errors
from dikkat_runtime.text.file_kinds import GIT_LFS

MAX_BYTES = 16 * 2**20
"""Three times the largest tokenizer that is known, one of half a million entries."""
MAX_PARTS = 1_500_000
"""Lists, objects and their members, each of which takes about 100 bytes of memory."""
_MAX_SHOWN_LENGTH = 80


def read_json(path: Path, what: str = "valid JSON") -> Any:
    """Return the content of the file. Raises `MissingInputError` or `DataError` naming it and that it is not `what`."""
    content = read_regular(path, MAX_BYTES)
    parts = sum(map(content.count, (b",", b"[", b"{")))
    if parts > MAX_PARTS:
        raise DataError(
            "{path}: not {kind} ({parts:,} parts, over the limit of {limit:,})", path, what, parts, MAX_PARTS
        )
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise DataError("{path}: not {kind} (nested too deep)", path, what) from None
    except ValueError as error:
        raise DataError("{path}: not {kind} ({error})", path, what, shown(str(error))) from None


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a file, for which memory of its own size is taken, whatever `most` is.

    Raises `MissingInputError`, or `DataError` for a folder, a device or over `most` bytes.
    """
    require_regular(path)
    with reading_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise DataError("{path}: has more than {limit:,} bytes, which such a file never has", path, most)
        return file.read(size)


def require_regular(path: Path) -> None:
    """Raise `MissingInputError` where nothing is, `DataError` for a folder, pipe, device or pointer of Git LFS."""
    with reading_errors(path):
        regular = path.is_file()
        path.stat()
    if not regular:
        raise DataError("{path}: is not a regular file", path)
    with reading_errors(path), path.open("rb") as file:
        if file.read(len(GIT_LFS)) == GIT_LFS:
            raise DataError("{path}: is a pointer of Git LFS, not the file; fetch that with git lfs pull", path)


def shown(value: object) -> str:
    """Return a foreign value for a message: on one line, without control characters, not long."""
    text = value if isinstance(value, str) else repr(value)
    escaped = "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text[: _MAX_SHOWN_LENGTH + 1])
    return escaped if len(escaped) <= _MAX_SHOWN_LENGTH else escaped[: _MAX_SHOWN_LENGTH - 1] + "…"
