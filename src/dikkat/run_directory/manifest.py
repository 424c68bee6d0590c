"""`manifest.json`: sizes and checksums of the files of a run that do not change.

It is written when the preparation ends, and once more with the last file of the run. A file is compared with it when
it is first used: its size, then its SHA-256. A run without a manifest, of an older dikkat, is used unchecked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dikkat.run_directory.parts import ENDED, LIMITS, MANIFEST, PREPARED, check_file
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.text.strict_json import parse_json

_HEX = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20
_known: dict[tuple[str, int, int, int, int], str] = {}
"""Checksums that this process has computed, by path, device, inode, size and time of change of the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold size and checksum of a file."""

    size: int
    sha256: str
    before: str = ""
    """SHA-256 of the previous content, while the file is being replaced."""


def write_manifest(
    folder: Path, names: Iterable[str], contents: Mapping[str, bytes], before: bytes | None = None
) -> None:
    """List the existing files `names`, and those of `contents`, which are about to be written over `before`.

    Raises `OSError`, `DiskError` or `CannotCreateError`.
    """
    old = "" if before is None else hashlib.sha256(before).hexdigest()
    entries = {
        name: Entry(len(content), hashlib.sha256(content).hexdigest(), old) for name, content in contents.items()
    }
    for name in names:
        path = folder / name
        if name not in entries and (size := check_file(path)) is not None:
            entries[name] = Entry(size, _checksum(path))
    files = {
        name: {key: value for key, value in asdict(entries[name]).items() if value != ""} for name in sorted(entries)
    }
    content = json.dumps({"files": files, "sha256": _own_checksum(files)}, indent=1) + "\n"
    write_atomically(folder / MANIFEST, content.encode())


def read_manifest(folder: Path) -> dict[str, Entry] | None:
    """Return the listed files, or None where there is no manifest. Raises `DataError` or `MissingInputError`."""
    path = folder / MANIFEST
    if check_file(path) is None:
        return None
    try:
        manifest = parse_json(read_regular(path, LIMITS[MANIFEST]))
        files = manifest["files"]
        if manifest["sha256"] != _own_checksum(files):
            raise ValueError("its content does not match its checksum")
        return {name: _entry(name, value) for name, value in files.items()}
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: damaged ({error}); restore the file, or remove it to use this run without checks"
        ) from None


def verify(folder: Path, name: str, entry: Entry) -> None:
    """Compare a file with its entry, size first. Raises `DataError`, or `MissingInputError` where there is none."""
    path = folder / name
    size = check_file(path)
    if size is None:
        raise MissingInputError(f"{path}: is missing from the run; restore it from a copy")
    if size != entry.size and not entry.before:
        raise DataError(f"{path}: damaged: has {size:,} bytes, but {entry.size:,} were written; {_ADVICE}")
    try:
        actual = _checksum(path)
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    if actual not in (entry.sha256, entry.before):
        raise DataError(f"{path}: damaged: its content does not match its checksum; {_ADVICE}")


def verify_content(path: Path, content: bytes, entry: Entry) -> None:
    """Compare the content of a file with its entry. Raises `DataError`."""
    if hashlib.sha256(content).hexdigest() not in (entry.sha256, entry.before):
        raise DataError(f"{path}: damaged: its content does not match its checksum; {_ADVICE}")


_ADVICE = f"restore it from a copy, or, if it was changed on purpose, remove {MANIFEST}"


def _checksum(path: Path) -> str:
    """SHA-256 of a file, computed once in a process as long as the file does not change."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if key not in _known:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


def _own_checksum(files: Any) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _entry(name: str, value: dict[str, Any]) -> Entry:
    entry = Entry(**value)
    if name not in (*PREPARED, *ENDED) or type(entry.size) is not int or not _HEX.fullmatch(entry.sha256):
        raise ValueError(f"lists {name[:40]!r} as no run does")
    return entry
