"""Look at where an export is to be written, before the work."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import write_errors


def require_empty_folder(folder: Path) -> None:
    """Raise `CannotCreateError` unless a folder is empty, or nothing has its name and something may."""
    mode = _mode(folder)
    with write_errors(folder):
        if mode is not None and (not stat.S_ISDIR(mode) or any(folder.iterdir())):
            raise CannotCreateError("{folder}: is not an empty folder; give another --out").fill(folder)


def require_nothing_at(path: Path) -> None:
    """Raise `CannotCreateError` unless nothing has the name `path`, and something may."""
    if _mode(path) is not None:
        raise CannotCreateError("{path}: is already there; give another --out").fill(path)


def _mode(path: Path) -> int | None:
    """What is at a path, or None for nothing."""
    with write_errors(path):
        try:
            return os.lstat(path).st_mode
        except FileNotFoundError:
            return None
