"""Read the bytes of a file, unpacked on the way where it is compressed with gzip, bzip2, xz, zstd or zip.

The first bytes tell how a file is packed; its name does not count. Unpacking streams, and a file that unpacks to far
more than text does is given up before it fills memory or disk.
"""

import bz2
import gzip
import importlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from dikkat_runtime.errors import DataError, msg

SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Suffixes of packed files."""
MAX_RATIO = 200
"""Largest ratio of unpacked to packed size; text is packed to a tenth or a thirtieth."""
UNPACKED_ALWAYS = 1 << 26
"""Bytes that are unpacked whatever the ratio."""
_XZ_MEMORY = 1 << 28
"""Most memory for the dictionary of xz, in bytes; `xz -9` takes a quarter of it."""
_CHUNK = 1 << 16
_DOCUMENTS = {
    "word/": msg("a Word document (.docx)"),
    "xl/": msg("an Excel workbook (.xlsx)"),
    "ppt/": msg("a PowerPoint presentation (.pptx)"),
    "mimetype": msg("an OpenDocument file or an e-book (.odt, .epub)"),
    "META-INF/": msg("a Java archive (.jar)"),
}


def open_unpacked(path: Path) -> BinaryIO:
    """Return a stream of the content of a file, unpacked while it is read.

    Reading raises `DataError` for a damaged file, for one that unpacks to too much, and for a zip archive of anything
    but one file; opening raises `OSError`.
    """
    file = path.open("rb")
    try:
        return unpacked(file, path)
    except BaseException:
        file.close()
        raise


def unpacked(file: io.BufferedReader, path: Path) -> BinaryIO:
    """Return a stream of the content of an open file, or the file itself where it is not packed; see `open_unpacked`.

    Closing the stream closes the file.
    """
    unpacking = _unpacking(file, path)
    if unpacking is None:
        return file
    kind, stream = unpacking
    return io.BufferedReader(_Checked(stream, file, path, kind), _CHUNK)


def without_packing(path: Path) -> str:
    """Return the name of the content of a file: without `.gz` and the like, and for a zip archive that of the file in
    it.
    """
    name = path.name
    if name.lower().endswith(".zip") and path.is_file():
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                return Path(_only_member(archive, path).filename).name
        except (OSError, zipfile.BadZipFile, DataError):  # said when it is read
            return name
    return name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in SUFFIXES else name


def _unpacking(file: io.BufferedReader, path: Path) -> tuple[str, Any] | None:
    """How a file is packed, and a stream of what is in it."""
    begin = file.peek(16)
    if begin.startswith(b"\x1f\x8b"):
        return "gzip", gzip.GzipFile(fileobj=file, mode="rb")
    if begin.startswith(b"BZh") and begin[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bzip2", io.BufferedReader(_Unpacked(file, bz2.BZ2Decompressor), _CHUNK)
    if begin.startswith(b"\xfd7zXZ\0"):
        return "xz", io.BufferedReader(_Unpacked(file, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)), _CHUNK)
    if begin.startswith(b"\x28\xb5\x2f\xfd"):
        if (zstd := _zstd()) is not None:
            return "zstd", io.BufferedReader(_Unpacked(file, zstd.ZstdDecompressor), _CHUNK)
        if (stream := _zstd_by_pyarrow(file)) is not None:
            return "zstd", stream
    if begin.startswith(b"PK\x03\x04"):
        return "zip", _open_member(file, path)
    return None


def _zstd() -> Any | None:
    try:
        return importlib.import_module("compression.zstd")  # from Python 3.14 on
    except ImportError:
        return None


def _zstd_by_pyarrow(file: BinaryIO) -> Any | None:
    try:
        import pyarrow
    except ImportError:
        return None
    return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd"), _CHUNK)


class _Unpacked(io.RawIOBase):
    """What one or more packed streams, one after the other in a file, hold."""

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        """`new` returns a decompressor of bz2, lzma or zstd."""
        self._file, self._new, self._decompressor = file, new, new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        unpacked = b""
        while not unpacked:
            packed = b""
            if self._decompressor.eof:
                # xz pads its streams with zeros
                packed = (self._decompressor.unused_data or self._file.read(_CHUNK)).lstrip(b"\0")
                if not packed:
                    return 0
                self._decompressor = self._new()
            elif self._decompressor.needs_input:
                packed = self._file.read(_CHUNK)
                if not packed:
                    raise EOFError(msg("it ends too early"))
            unpacked = self._decompressor.decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)


class _Checked(io.RawIOBase):
    """An unpacked stream that says in one line what is wrong with it, and ends before it becomes too large."""

    def __init__(self, stream: Any, file: BinaryIO, path: Path, kind: str) -> None:
        self._stream, self._file, self._path, self._kind, self._unpacked = stream, file, path, kind, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size: int = self._stream.readinto(buffer)
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DataError("{path}: truncated or damaged {kind} ({error}); fetch or compress the file again").fill(
                self._path, self._kind, error
            ) from None
        self._unpacked += size
        # a pipe does not tell how much of it was read
        packed = self._file.tell() if self._file.seekable() else self._unpacked
        if self._unpacked > UNPACKED_ALWAYS and self._unpacked > MAX_RATIO * packed:
            raise DataError(
                "{path}: unpacks to more than {size:,} MiB, {max_ratio} times its size, as no text does; look at "
                "what is in it"
            ).fill(self._path, self._unpacked >> 20, MAX_RATIO)
        return size

    def close(self) -> None:
        self._stream.close()
        self._file.close()
        super().close()


def _open_member(file: BinaryIO, path: Path) -> Any:
    if not file.seekable():
        raise DataError("{path}: is a zip archive, which cannot be read from a pipe; unpack it first", path)
    try:
        archive = zipfile.ZipFile(file)
        return archive.open(_only_member(archive, path))
    except zipfile.BadZipFile as error:
        raise DataError(
            "{path}: truncated or damaged zip ({error}); fetch or compress the file again", path, error
        ) from None
    except NotImplementedError as error:
        raise DataError(
            "{path}: is a zip archive that cannot be unpacked here ({error}); unpack it first", path, error
        ) from None


def _only_member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """The one file in an archive, the notes that systems add to it left out."""
    names = [member.filename for member in archive.infolist()]
    for begin, kind in _DOCUMENTS.items():
        if any(name.startswith(begin) for name in names):
            raise DataError("{path}: is {kind}, not text; save its text as UTF-8 (.txt)", path, kind)
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not member.filename.startswith("__MACOSX/") and ".DS_Store" not in member.filename
    ]
    if len(members) != 1:
        raise DataError(
            "{path}: is a zip archive of {count} files; unpack it, and name the files to read", path, len(members)
        )
    if members[0].flag_bits & 1:
        raise DataError("{path}: is a zip archive with a password; unpack it first", path)
    return members[0]
