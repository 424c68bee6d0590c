"""The files and folders of a run: a fixed set of names, each a regular file or a real folder inside the run.

A run from a stranger may hold anything under these names: a link to a folder that is not theirs, a pipe that is never
written to, a device without an end. None of it is followed, waited for or read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dikkat_runtime.engine.run_directory import TARGET_TOKENIZER, WORD_SCORES, WORD_TABLE
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.files import what_is_at

MANIFEST = "manifest.json"
FOLDERS = ("corpus", "held_out")
"""Folders of the data that a run is trained and measured on."""
CORPUS = (
    *(f"corpus/{part}.{kind}.npy" for part in ("train", "validation") for kind in ("ids", "offsets")),
    "corpus/train.links.npy",
)
PREPARED = (
    "tokenizer.json",
    TARGET_TOKENIZER,
    "initial.safetensors",
    WORD_TABLE,
    WORD_SCORES,
    *CORPUS,
    *(f"held_out/{part}.{side}.txt" for part in ("validation", "test") for side in ("source", "target")),
    "config.json",
)
"""Files that are written before training and never changed."""
ENDED = ("metrics.jsonl", "precision.json", "card.md")
"""Files that do not change once a run is finished."""
LIMITS = {
    MANIFEST: 1 << 16,
    "config.json": 1 << 20,
    "state.json": 1 << 20,
    "card.md": 1 << 20,
    "precision.json": 1 << 12,
    "metrics.jsonl": 8 << 20,
    "tokenizer.json": 32 << 20,
    TARGET_TOKENIZER: 32 << 20,
}
"""Largest size of a file in bytes, by name; others are bounded by what they are compared with."""
_CHECKPOINT_FILE = re.compile(r"[a-z_]{1,40}\.safetensors|state\.json|metrics\.jsonl")
_ARRAY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<[ui]([248])', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n",
    re.DOTALL,
)


def check_folder(path: Path) -> None:
    """Check that a folder of a run is a folder, or missing.

    Raises `DataError` for a link or a file, `MissingInputError`.
    """
    try:
        kind = what_is_at(path)
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    if kind not in ("", "a folder") or (not kind and path.exists()):
        raise DataError(f"{path}: damaged: is {kind or 'a file'}, not a folder; restore the folder")


def check_file(path: Path) -> int | None:
    """Return the bytes of a file of a run, or None where there is none.

    Raises `DataError` for a link, a folder, a pipe or a device, and for a file that is larger than its kind ever is.
    """
    try:
        kind = what_is_at(path)
        size = os.lstat(path).st_size if not kind and path.exists() else None
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    if kind:
        raise DataError(f"{path}: damaged: is {kind}, not a file; restore the file")
    if size is not None and size > LIMITS.get(path.name, size):
        raise DataError(f"{path}: damaged: has {size:,} bytes, over the limit of {LIMITS[path.name]:,}")
    return size


def check_array(path: Path) -> None:
    """Check that an array of a corpus, if there is one, has the header that was written and as many bytes.

    The header is an expression of Python, which numpy would evaluate. Raises `DataError` or `MissingInputError`.
    """
    size = check_file(path)
    if size is None:
        return
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    header = _ARRAY_HEADER.match(start)
    if header is None or header.end() + int(header[1]) * int(header[2]) != size:
        raise DataError(f"{path}: damaged: not an array of a corpus, or cut short; prepare the data again")


def is_checkpoint_file(name: object) -> bool:
    """Return whether a checkpoint may list a file of this name."""
    return isinstance(name, str) and _CHECKPOINT_FILE.fullmatch(name) is not None
