"""Lock a run, so that one process at a time writes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import write_errors


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold `folder` against all other processes; yield False where the system has no lock for a folder.

    The lock is the kernel's, on the folder itself: it leaves no file, and ends with the process however that ends.
    Raises `CannotCreateError` when another holds it or it may not be read.
    """
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    with write_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = True
        except BlockingIOError:
            raise CannotCreateError(
                f"{folder}: another process is writing this run; wait until it ends, or give another --out"
            ) from None
        except OSError:  # NFS has locks for files alone
            is_held = False
        yield is_held
    finally:
        os.close(descriptor)
