"""`manifest.json`: sizes and checksums of the files of a run that do not change.

It is written when the preparation ends, and once more with the last file of the run. A file is compared with it when
it is first used: its size, then its SHA-256. The weights, which training replaces, carry a checksum of their own. A run
without a manifest is used unchecked.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, MissingInputError, msg, unreadable
from dikkat_runtime.files import read_regular, reading_errors
from dikkat_runtime.run.parts import CONFIG, ENDED, EXPORTED, LIMITS, MANIFEST, PREPARED, check_file
from dikkat_runtime.run.strict_json import parse_json

_HEX = re.compile(r"[0-9a-f]{64}")
_ADVICE = msg("restore it from a copy, or, if it was changed on purpose, remove {manifest}", MANIFEST)
_known: dict[tuple[str, int, int, int, int], str] = {}
"""Checksums that this process has computed, by path, device, inode, size and time of change of the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold size and checksum of a file."""

    size: int
    sha256: str
    before: str = ""
    """SHA-256 of the previous content, while the file is being replaced."""


def checked(run: Path, name: str) -> Path:
    """Return the path of a file of the run, compared with the manifest where it is listed there.

    Raises `DataError` when it is damaged, and `MissingInputError` when it alone is missing.
    """
    path = run / name
    size, entry = check_file(path), listed(run).get(name)
    # a folder may be left out as a whole, for instance where a run is passed on without its data
    if entry is None or not path.parent.exists():
        return path
    if size is None:
        raise MissingInputError("{path}: is missing from the run; restore it from a copy", path)
    if size != entry.size and not entry.before:
        raise DataError("{path}: damaged: has {size:,} bytes, but {expected:,} were written; {advice}").fill(
            path, size, entry.size, _ADVICE
        )
    with reading_errors(path):
        actual = checksum_of_file(path)
    verify_checksum(path, actual, entry)
    return path


def listed(run: Path) -> dict[str, Entry]:
    """Return the manifest of the files that do not change any more; empty before the preparation has ended.

    Raises `DataError` or `MissingInputError`.
    """
    if not (run / CONFIG).exists():
        return {}
    is_finished = (run / "card.md").exists()
    entries = read_manifest(run) or {}
    return {name: entry for name, entry in entries.items() if is_finished or name not in ENDED}


def read_manifest(folder: Path) -> dict[str, Entry] | None:
    """Return the listed files, or None where there is no manifest. Raises `DataError` or `MissingInputError`."""
    path = folder / MANIFEST
    if check_file(path) is None:
        return None
    try:
        manifest = parse_json(read_regular(path, LIMITS[MANIFEST]))
        files = manifest["files"]
        if manifest["sha256"] != checksum_of_entries(files):
            raise ValueError("its content does not match its checksum")
        return {name: _entry(name, value) for name, value in files.items()}
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            "{path}: damaged ({error}); restore the file, or remove it to use this run without checks", path, error
        ) from None


def verify_checksum(path: Path, actual: str, entry: Entry) -> None:
    """Compare the SHA-256 of a file with its entry. Raises `DataError`."""
    if actual not in (entry.sha256, entry.before):
        raise DataError("{path}: damaged: its content does not match its checksum; {advice}", path, _ADVICE)


def checksum_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, computed once in a process while the file does not change. Raises `OSError`."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if key not in _known:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


def checksum_of_entries(files: Any) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _entry(name: str, value: dict[str, Any]) -> Entry:
    entry = Entry(**value)
    if name not in (*PREPARED, *ENDED, *EXPORTED) or type(entry.size) is not int or not _HEX.fullmatch(entry.sha256):
        raise ValueError(f"lists {name[:40]!r} as no run does")
    return entry
