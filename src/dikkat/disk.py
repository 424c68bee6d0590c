"""Writing files so that a crash or a full disk loses nothing: written beside, fsynced, renamed.

Whoever reads sees the old file or the whole new one, never a part. A failure is one line with the path, and the
half-written file is gone.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dikkat.errors import CannotCreateError, DikkatError, DiskError

TEMPORARY_PREFIX = ".writing-"
"""Names that start so are half-written; they may be removed when no run writes here."""

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn every `OSError` inside into one line about `path`.

    Raises `DiskError` when the disk is full or broken, `CannotCreateError` when the place may not be written.
    """
    try:
        yield
    except OSError as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: OSError) -> DikkatError:
    reason = error.strerror or str(error)
    if error.errno in _DISK_ERRORS:
        return DiskError(f"{path}: writing failed: {reason}; what was saved before is intact; make room and go on")
    if error.errno == errno.ENOENT:
        return CannotCreateError(f"{path}: cannot be written: the folder {path.parent} does not exist; create it first")
    return CannotCreateError(f"{path}: cannot be written: {reason}; choose another place")


def temporary_beside(path: Path) -> Path:
    """A fresh name in the folder of `path`, marked as half-written."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(4)}")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file `path` with `content`, or leave it as it was.

    Raises `DiskError` or `CannotCreateError`.
    """
    with write_errors(path):
        temporary = temporary_beside(path)
        try:
            write_new(temporary, content)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def probe_beside(path: Path) -> None:
    """Write and remove a file beside `path`: a place that cannot be written should be known before the work, not after.

    Raises `OSError`.
    """
    probe = temporary_beside(path)
    try:
        write_new(probe, b"\n")
    finally:
        probe.unlink(missing_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """Write and fsync a file that does not exist yet. Raises `OSError`."""
    # Not tempfile: its files are readable by their owner only, a run directory follows the umask.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: bytes) -> None:
    """Append `line` and a newline, fsynced; a line that an earlier crash left unfinished is cut off first.

    Raises `DiskError` or `CannotCreateError`; the file then holds the same whole lines as before.
    """
    with write_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            end = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(descriptor, end)
            os.lseek(descriptor, end, os.SEEK_SET)
            try:
                _write_all(descriptor, line + b"\n")
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable. Raises `OSError`."""
    if os.name == "nt":  # Windows cannot open a folder and needs no such call
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    # One call writes at most 2 GiB on Linux, and less on a nearly full disk.
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
