"""Look at what is to be imported, before the work."""

from __future__ import annotations

import os
from pathlib import Path

from dikkat_runtime.errors import MissingInputError

FILES = (".npz", ".bin", ".zip", ".argosmodel")
"""Ends of the names of files that are imported; anything else is the name of a folder, or of a model on a server."""


def require_something_at(path: Path) -> None:
    """Raise `MissingInputError` unless something has the name `path`."""
    if not os.path.lexists(path):
        if path.suffix.lower() in FILES:
            raise MissingInputError(f"{path}: there is no such file")
        raise _missing(path, "there is no such folder")


def require_folder(path: Path) -> None:
    """Raise `MissingInputError` unless `path` is a folder."""
    require_something_at(path)
    if not path.is_dir():
        raise _missing(path, "is a file")


def _missing(path: Path, what: str) -> MissingInputError:
    return MissingInputError(
        f"{path}: {what}; dikkat downloads nothing: name a folder that holds config.json, model.safetensors and"
        " tokenizer.json, as `hf download OWNER/NAME --local-dir FOLDER` leaves one"
    )
