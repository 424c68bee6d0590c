"""The files and folders of a run: a fixed set of names, each a regular file or a real folder inside the run.

A run from a stranger may hold anything under these names: a link to a folder that is not theirs, a pipe that is never
written to, a device without an end. None of it is followed, waited for or read.
"""

import os
from pathlib import Path

from dikkat_runtime.errors import DataError, unreadable
from dikkat_runtime.files import file_kind, kind_of, reading_errors

MANIFEST = "manifest.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TARGET_TOKENIZER = "tokenizer.target.json"
"""The file of a run that holds the target's vocabulary where there are two; tokenizer.json is then the source's."""
WORD_TABLE = "word_table.safetensors"
"""The file of a classifier's run that holds its table of n-grams of words and characters, where there is one."""
WORD_SCORES = "word_scores.safetensors"
"""The file of a classifier's run that holds what tables of others say of its training and validation texts."""
WEIGHTS = "model.safetensors"
METRICS = "metrics.jsonl"
FOLDERS = ("corpus", "held_out")
"""Folders of the data that a run is trained and measured on."""
MEMBERS = "members"
"""Folder of further runs, named by their numbers from 2, whose probabilities are averaged with those of the run."""
CORPUS = (
    *(f"corpus/{part}.{kind}.npy" for part in ("train", "validation", "general") for kind in ("ids", "offsets")),
    "corpus/train.links.npy",
)
PREPARED = (
    TOKENIZER,
    TARGET_TOKENIZER,
    "initial.safetensors",
    WORD_TABLE,
    WORD_SCORES,
    *CORPUS,
    *(f"held_out/{part}.{side}.txt" for part in ("validation", "general", "test") for side in ("source", "target")),
    CONFIG,
)
"""Files that are written before training and never changed."""
ENDED = (METRICS, "precision.json", "card.md")
"""Files that do not change once a run is finished."""
EXPORTED = ("confidence.json",)
"""Files that a run may gain once its manifest is written, and that the manifest of an export lists."""
LIMITS = {
    MANIFEST: 1 << 16,
    CONFIG: 1 << 20,
    "state.json": 1 << 20,
    "card.md": 1 << 20,
    "precision.json": 1 << 12,
    METRICS: 8 << 20,
    TOKENIZER: 32 << 20,
    TARGET_TOKENIZER: 32 << 20,
}
"""Largest size of a file in bytes, by name; others are bounded by what they are compared with."""


def check_folder(path: Path) -> None:
    """Check that a folder of a run is one, or missing. Raises `DataError` for a link or a file, `MissingInputError`."""
    with reading_errors(path):
        kind = file_kind(path)
    if kind not in ("", "a folder") or (not kind and path.exists()):
        raise DataError("{path}: damaged: is {kind}, not a folder; restore the folder", path, kind or "a file")


def check_file(path: Path) -> int | None:
    """Return the bytes of a file of a run, or None where there is none.

    Raises `DataError` for a link, a folder, a pipe or a device, and for a file that is larger than its kind ever is.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    if kind := kind_of(status.st_mode):
        raise DataError("{path}: damaged: is {kind}, not a file; restore the file", path, kind)
    if status.st_size > LIMITS.get(path.name, status.st_size):
        raise DataError("{path}: damaged: has {size:,} bytes, over the limit of {limit:,}").fill(
            path, status.st_size, LIMITS[path.name]
        )
    return status.st_size


def check_kinds(run: Path) -> None:
    """Check that nothing in the run is a link, a pipe or a device. Raises `DataError` or `MissingInputError`."""
    for name in (*FOLDERS, MEMBERS, "checkpoints"):
        check_folder(run / name)
    for name in (*PREPARED, *ENDED, MANIFEST, WEIGHTS):
        check_file(run / name)
