"""A lock on an output folder, so that one driver at a time writes each of its files."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import make_folder, take_lock, write_errors

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
    with ExitStack() as stack:
        with ExitStack() as beginning:
            take_lock(_opened(beginning, folder / _BEGINNING), math.inf)
            folder_lock = _opened(stack, folder / LOCK_PREFIX)
            is_alone = take_lock(folder_lock) is not False
            if part is not None:
                number, total = (int(word) for word in part.split("/"))
                _share(folder, folder_lock, total, is_alone=is_alone)
                own = _opened(stack, folder / f"{LOCK_PREFIX}-{number}-of-{total}")
            if not is_alone if part is None else take_lock(own) is False:
                raise _is_busy(folder)
            begin(is_alone)
        yield


def _share(folder: Path, descriptor: int, total: int, *, is_alone: bool) -> None:
    """Take the lock that the tasks of one array hold together; the first of them notes how many there are."""
    if take_lock(descriptor, is_shared=True) is False:
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
