"""Look at the paths of an import or an export, before the work."""

import os
import stat
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, msg
from dikkat_runtime.files import write_errors

# Look at what is to be imported, before the work.

FILES = (".npz", ".bin", ".zip", ".argosmodel", ".gguf")
"""Ends of the names of files that are imported; anything else is the name of a folder, or of a model on a server."""

_PROGRAMS = {".onnx": msg("an ONNX graph"), ".keras": msg("a model of Keras")}
"""Files that hold a computation, and what they are, by the ends of their names."""


def require_exists(path: Path) -> None:
    """Raise `MissingInputError` unless something has the name `path`."""
    if not os.path.lexists(path):
        if path.suffix.lower() in FILES:
            raise MissingInputError("{path}: there is no such file", path)
        raise _missing(path, msg("there is no such folder"))


def require_folder(path: Path) -> None:
    """Raise `MissingInputError` unless `path` is a folder."""
    require_exists(path)
    if not path.is_dir():
        require_other_than_programs(path)
        raise _missing(path, msg("is a file"))


def require_other_than_programs(path: Path) -> None:
    """Raise `DataError` for ONNX graphs or an archive of Keras: a file of that kind, or a folder without weights."""
    files = [path] if path.is_file() else sorted([*path.glob("*"), *path.glob("onnx/*")])
    if any(file.suffix in (".safetensors", ".bin") for file in files):
        return
    for file in files:
        if (kind := _PROGRAMS.get(file.suffix.lower())) is not None:
            raise DataError(
                "{file}: is {kind}, written by exports but never imported; name what it was made from", file, kind
            )


def _missing(path: Path, what: str) -> MissingInputError:
    return MissingInputError(
        "{path}: {problem}; dikkat downloads nothing: name a folder that holds config.json, model.safetensors "
        "and tokenizer.json, as `hf download OWNER/NAME --local-dir FOLDER` leaves one"
    ).fill(path, what)


# Look at where an export is to be written, before the work.


def require_empty_folder(folder: Path) -> None:
    """Raise `CannotCreateError` unless a folder is empty, or nothing has its name and something may."""
    mode = _mode(folder)
    with write_errors(folder):
        if mode is not None and (not stat.S_ISDIR(mode) or any(folder.iterdir())):
            raise CannotCreateError("{folder}: is not an empty folder; give another --out", folder)


def require_nothing_at(path: Path) -> None:
    """Raise `CannotCreateError` unless nothing has the name `path`, and something may."""
    if _mode(path) is not None:
        raise CannotCreateError("{path}: exists already; give another --out", path)


def _mode(path: Path) -> int | None:
    """What is at a path, or None for nothing."""
    with write_errors(path):
        try:
            return os.lstat(path).st_mode
        except FileNotFoundError:
            return None
