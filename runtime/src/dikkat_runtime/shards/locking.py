"""A lock on an output folder, so that one driver at a time writes each of its files."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import make_folder, write_errors

LOCK_PREFIX = ".lock"
"""Prefix of the files of a lock, which stay when it ends."""
_BEGINNING = f"{LOCK_PREFIX}-begin"
"""Held while a call begins, so that two of them do not begin by what neither has written yet."""
_MAX_TOTAL = 32
"""Digits."""
Begin = Callable[[bool], object]
"""Gets whether no other call writes the folder; no other one begins meanwhile."""


@contextmanager
def locked(folder: Path, part: str | None = None, begin: Begin = lambda is_alone: None) -> Iterator[None]:
    """Hold a folder against other drivers; tasks of one job array hold it together, each its own `part` of it alone.

    The lock is the kernel's and ends with the process. Raises `CannotCreateError` while another driver holds it, and
    what `begin` raises.
    """
    with write_errors(folder):
        make_folder(folder)
    if sys.platform == "win32":
        begin(True)
        yield
        return
    with ExitStack() as stack:
        with ExitStack() as beginning:
            _is_taken(_opened(beginning, folder / _BEGINNING), is_shared=False, waits=True)
            folder_lock = _opened(stack, folder / LOCK_PREFIX)
            is_alone = _is_taken(folder_lock, is_shared=False)
            if part is not None:
                number, total = (int(word) for word in part.split("/"))
                _share(folder, folder_lock, total, is_alone=is_alone)
                own = _opened(stack, folder / f"{LOCK_PREFIX}-{number}-of-{total}")
            if not (is_alone if part is None else _is_taken(own, is_shared=False)):
                raise _is_busy(folder)
            begin(is_alone)
        yield


def _share(folder: Path, descriptor: int, total: int, *, is_alone: bool) -> None:
    """Take the lock that the tasks of one array hold together; the first of them notes how many there are."""
    if not _is_taken(descriptor, is_shared=True):
        raise _is_busy(folder)
    with write_errors(folder / LOCK_PREFIX):
        if is_alone:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(total).encode(), 0)
            return
        others = os.pread(descriptor, _MAX_TOTAL, 0).decode()
    if others not in ("", str(total)):
        raise CannotCreateError(
            "{folder}: tasks of --shard …/{others} are writing here, which divide the files differently; wait "
            "until they end, or give another --out"
        ).fill(folder, others)


def _is_busy(folder: Path) -> CannotCreateError:
    return CannotCreateError(
        "{path}: another command is writing here; wait until it ends, or give another --out", folder
    )


def _opened(stack: ExitStack, path: Path) -> int:
    with write_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    stack.callback(os.close, descriptor)
    return descriptor


def _is_taken(descriptor: int, *, is_shared: bool, waits: bool = False) -> bool:
    """Take the lock of an open file, or change it to this kind; return False where another process holds it."""
    import fcntl

    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind if waits else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
