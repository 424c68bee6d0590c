"""Binary files that are read and written packed as their names say."""

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg
from dikkat_runtime.files import MAX_LINE_LENGTH, reading_errors
from dikkat_runtime.rows.contract import Packing
from dikkat_runtime.text import packed

_NEEDS = "{path}: needs pyarrow; pip install 'dikkat-runtime[parquet]'"


def pyarrow(path: Path) -> Any:
    """Return the module `pyarrow`. Raises `UsageError` naming the file that needs it, where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise UsageError(_NEEDS).fill(path) from None
    return pyarrow


def open_shard(path: Path) -> io.BufferedReader:
    """Open a regular file for reading. Raises `MissingInputError`."""
    with reading_errors(path):
        if not path.exists():
            raise MissingInputError("{path}: there is no such file", path)
        if not path.is_file():
            raise MissingInputError("{path}: must be a file; leave it out", path)
        return path.open("rb")


def unpacked(raw: IO[bytes], packing: Packing, path: Path) -> IO[bytes]:
    """Return what gives the content of the open file `raw`, which stays open.

    Raises `DataError` for one that is not packed as its name says.
    """
    # the stream closes what it reads as soon as nobody holds it
    file = cast(io.BufferedReader, os.fdopen(raw.fileno(), "rb", 1 << 17, closefd=False))
    stream = packed.unpacked(file, path)
    if packing and stream is file:
        why = msg("its content is not compressed") if file.peek(1) else msg("it is empty, like a failed download")
        raise DataError("{path}: damaged ({error}); restore the file", path, why)
    return stream


@contextmanager
def packing_into(file: IO[bytes], packing: Packing, path: Path) -> Iterator[IO[bytes]]:
    """Yield what packs into the open `file`, the same bytes for the same content; the file itself stays open."""
    if packing == "gz":
        # no name and no time, which would differ from one call to the next
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as stream:
            yield cast(IO[bytes], stream)
    elif packing in ("bz2", "xz"):
        with bz2.BZ2File(file, "wb") if packing == "bz2" else lzma.LZMAFile(file, "wb") as stream:
            yield cast(IO[bytes], stream)
    elif packing == "zst":
        # closing the stream would close the file before it is synchronised
        own = os.fdopen(file.fileno(), "wb", closefd=False)
        with pyarrow(path).CompressedOutputStream(own, "zstd") as stream:
            yield stream
    else:
        yield file


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends, split at line feeds only; of a line over `MAX_LINE_LENGTH` bytes its beginning.

    That beginning is one byte longer than the limit and has no end, by which it is known.
    """
    while line := file.readline(MAX_LINE_LENGTH + 1):
        rest = line
        while len(line) > MAX_LINE_LENGTH and rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_LENGTH + 1)
        yield line
