"""A lock on an output folder, so that one driver at a time writes each of its files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import make_folder, write_errors

_NAME = ".lock"


@contextmanager
def locked(folder: Path, part: str | None = None) -> Iterator[None]:
    """Hold a folder against other drivers; tasks of a job array hold it together, each its own `part` of it alone.

    The lock is the kernel's and ends with the process. Raises `CannotCreateError` while another driver holds it.
    """
    with write_errors(folder):
        make_folder(folder)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with ExitStack() as stack:
        _hold(stack, folder, folder / _NAME, fcntl.LOCK_EX if part is None else fcntl.LOCK_SH)
        if part is not None:
            _hold(stack, folder, folder / f"{_NAME}-{part.replace('/', '-of-')}", fcntl.LOCK_EX)
        yield


def _hold(stack: ExitStack, folder: Path, path: Path, kind: int) -> None:
    import fcntl

    with write_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotCreateError(
                f"{folder}: another call is writing here; wait until it ends, or give another --out"
            ) from None
