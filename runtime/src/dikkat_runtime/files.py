"""Write files that a crash or a full disk does not lose, and read files of strangers safely.

Writing: a new file next to the old one, fsynced, renamed, the folder fsynced. A reader sees the old file or the whole
new one, never a part. A failure is one line with the path, and the half-written file is gone.
Reading: only regular files, of a bounded size, opened without waiting for a writer.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from dikkat_runtime.errors import CannotCreateError, DataError, DikkatError, DiskError, msg, reason_of, unreadable

TEMPORARY_PREFIX = ".writing-"
"""Prefix of half-written files; they may be removed when no run writes here."""
MAX_LINE_LENGTH = 1_000_000
"""Bytes of the longest line that is read as text; no sentence is longer, and memory stays bounded."""

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn every `OSError` inside into one line about `path`.

    Raises `DiskError` when the disk is full or broken, `CannotCreateError` when the path may not be written.
    """
    try:
        yield
    except OSError as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: OSError) -> DikkatError:
    reason = reason_of(error)
    if error.errno in _DISK_ERRORS:
        return DiskError(
            "{path}: writing failed: {reason}; what was saved before is intact; make room and resume", path, reason
        )
    if error.errno == errno.ENOENT and not path.parent.exists():
        return CannotCreateError(
            "{path}: cannot be written: the folder {parent} does not exist; create it first", path, path.parent
        )
    return CannotCreateError("{path}: cannot be written: {reason}; choose another path", path, reason)


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn what a damaged or unreadable file raises into one line about it: `DataError` or `MissingInputError`."""
    try:
        yield
    except OSError as error:
        # libraries raise it without a number of the system for what is damaged
        if error.errno is None:
            what = " ".join(str(error).split())
            raise DataError("{path}: damaged ({error}); restore the file", path, what) from None
        raise unreadable(path, error) from None


def temporary_next_to(path: Path) -> Path:
    """Return a name for a half-written file in its folder. Raises `CannotCreateError` for a device, pipe or socket."""
    if path.absolute().parent == Path("/dev") or (path.exists() and not (path.is_file() or path.is_dir())):
        raise CannotCreateError("{path}: is a device, a pipe or a socket; name a file", path)
    return temporary_name(path)


def temporary_name(path: Path) -> Path:
    """Return a name next to `path` that nothing has, whatever stands in its place."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.urandom(4).hex()}")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a new file that replaces `path` only if no error is raised."""
    with write_errors(path):
        temporary = temporary_next_to(path)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file `path` with `content`, or leave it as it was. Raises `DiskError` or `CannotCreateError`."""
    with _replacing(path) as temporary:
        write_new(temporary, content)


@contextmanager
def write_streaming(path: Path) -> Iterator[TextIO]:
    """Yield a file of UTF-8 text to write piece by piece, which replaces `path` only if no error is raised.

    Raises `DiskError` or `CannotCreateError`.
    """
    with _replacing(path) as temporary, temporary.open("x", encoding="utf-8", errors="replace", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def probe_next_to(path: Path) -> None:
    """Write and remove a file next to `path`, to learn early that the folder cannot be written. Raises `OSError`."""
    probe = temporary_next_to(path)
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
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
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
        if is_new:
            sync_directory(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, each fsynced into its parent. Raises `OSError`."""
    if path.is_dir():
        return
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a folder durable. Raises `OSError`."""
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


def take_lock(descriptor: int, seconds: float = 0.0, *, is_shared: bool = False) -> bool | None:
    """Lock an open file or folder against other processes; return False where one holds it for so many seconds.

    Where the system has none, nothing is locked, and None is returned. A lock that is `is_shared` shuts out those alone
    that are not; one that is held changes to this kind. It is the kernel's, and ends when the file is closed.
    """
    kind, ends = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX, time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                return False
            time.sleep(0.05)
        except OSError:  # NFS has locks for files alone
            return None
        else:
            return True


@contextmanager
def locked_run(run: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a run directory against all other processes; yield False where the system has no lock for a folder.

    The lock is on the folder itself: it leaves no file. Raises `CannotCreateError` when another process holds it for so
    many seconds, or it may not be read.
    """
    with write_errors(run):
        descriptor = os.open(run, os.O_RDONLY)
    try:
        if (is_held := take_lock(descriptor, seconds)) is False:
            raise CannotCreateError(
                "{run}: another process is writing this run; wait until it ends, or choose another one", run
            )
        yield bool(is_held)
    finally:
        os.close(descriptor)


def file_kind(path: Path) -> str:
    """Return the kind of a directory entry that is not a regular file; an empty string for a file, or where nothing is.

    Raises `OSError` for a path that cannot be looked at.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    return kind_of(mode)


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a file that `open_regular` opens. Raises as that."""
    with os.fdopen(open_regular(path, limit), "rb") as file:
        return file.read()


def open_regular(path: Path, limit: int, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a regular file of at most `limit` bytes, to read it; a pipe or a device is refused, not waited for.

    `flags` and `mode` are those of `os.open`.

    Raises `OSError` where there is none or it cannot be read, and `DataError` for anything else and for a larger file.
    """
    descriptor = os.open(path, flags | _NO_WAIT, mode)
    try:
        status = os.fstat(descriptor)
        if kind := kind_of(status.st_mode):
            raise DataError("{path}: damaged: is {kind}, not a file; restore the file", path, kind)
        if status.st_size > limit:
            raise DataError(
                "{path}: damaged: has {size:,} bytes, over the limit of {limit:,}", path, status.st_size, limit
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: msg("a symbolic link"),
    stat.S_IFIFO: msg("a named pipe"),
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(mode: int) -> str:
    """Return the kind of a directory entry with this mode; an empty string for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "")
