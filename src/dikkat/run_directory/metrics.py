"""`metrics.jsonl`: one line of JSON for each validation, in the order of the steps.

Each carries the hash of the settings it was measured under, so that no score is shown beside another model's settings
(fault F12), and last the SHA-256 of itself and all lines before it, so that a line that was changed or lost is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dikkat.run_directory.checkpoints import Checkpoint
from dikkat.run_directory.parts import LIMITS, check_file
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.files import append_line, read_regular, write_atomically
from dikkat_runtime.text.strict_json import parse_json

SETTINGS_HASH = "settings_sha256"
"""Key of the hash of the settings in a row."""
_DIGEST = "sha256"
_SEALED = re.compile(rb'(, "sha256": "([0-9a-f]{64})")\}')
_LONGEST_LINE = 1 << 16


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 of settings as JSON, independent of order, spacing and the command that set them."""
    kept = {key: value for key, value in settings.items() if key != "command"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def append_metrics(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row, and sync it to disk. Raises `DiskError` or `CannotCreateError`."""
    before = b"".join(line + b"\n" for line in _lines(path))
    append_line(path, _sealed(_to_line(row), hashlib.sha256(before)))


def read_metrics(path: Path, *, sealed: bool = False) -> list[dict[str, Any]]:
    """Return all rows; none when there is no file yet. A last line cut short by a crash is not a row.

    Rows of an older dikkat have no checksum; `sealed` says that each must have one. Raises `DataError` with file and
    line for a line that is not a row of numbers, or does not match its checksum.
    """
    content, rows = hashlib.sha256(), []
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}:{number}"
        row = _from_line(line, where)
        seal = _SEALED.fullmatch(line, max(0, len(line) - _SEAL_LENGTH))
        sealed = sealed or seal is not None
        if sealed:
            body = line if seal is None else line[: seal.start()] + b"}"
            if seal is None or _sealed(body, content) != line:
                raise DataError(
                    f"{where}: damaged: this line or one before it was changed or is missing; restore the file"
                )
            del row[_DIGEST]
        rows.append(row)
        content.update(line + b"\n")
    return rows


def write_metrics(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace all rows. Raises `DiskError` or `CannotCreateError`."""
    content, digest = b"", hashlib.sha256()
    for row in rows:
        line = _sealed(_to_line(row), digest) + b"\n"
        digest.update(line)
        content += line
    write_atomically(path, content)


def truncate_metrics(path: Path, after_step: int) -> None:
    """Drop the rows later than `after_step`, which a resumed run will write again. Raises as `read_metrics`."""
    rows = read_metrics(path)
    kept = [row for row in rows if row["step"] <= after_step]
    if len(kept) < len(rows):
        write_metrics(path, kept)


def restore_metrics(path: Path, checkpoint: Checkpoint | None) -> list[str]:
    """Bring the rows to where `checkpoint` was saved, or to none, and return notes for the user.

    A checkpoint has a copy of the rows, so that none is lost; one of an older dikkat has none, and its rows are read.
    Raises as `read_metrics`.
    """
    if checkpoint is None:
        # the first validation writes its row before its checkpoint
        if check_file(path) is not None:
            write_metrics(path, [])
        return []
    copy = checkpoint.copy_of(path.name)
    if copy is None:
        write_metrics(path, [row for row in read_metrics(path) if row["step"] <= checkpoint.step])
    elif (content := b"".join(line + b"\n" for line in _lines(path))) != copy:
        # what was written after the checkpoint will be written again
        write_atomically(path, copy)
        if not content.startswith(copy):
            return [f"{path} was damaged; its rows are restored from {checkpoint.path.name}"]
    return []


_SEAL_LENGTH = len(f', "{_DIGEST}": ""}}') + 64


def _lines(path: Path) -> list[bytes]:
    """The complete lines. Raises `DataError` for what is no file, `MissingInputError` for one that cannot be read."""
    if check_file(path) is None:
        return []
    try:
        return read_regular(path, LIMITS["metrics.jsonl"]).split(b"\n")[:-1]
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None


def _sealed(line: bytes, before: Any) -> bytes:
    """`line` with the checksum of itself and of what `before` has seen."""
    digest = before.copy()
    digest.update(line)
    return line[:-1] + f', "{_DIGEST}": "{digest.hexdigest()}"}}'.encode()


def _to_line(row: Mapping[str, Any]) -> bytes:
    # JSON has no NaN: other programs could not read the file.
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(finite, ensure_ascii=False).encode()


def _from_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"has more than {_LONGEST_LINE:,} bytes")
        row = parse_json(line)
    except ValueError as error:
        raise DataError(f"{where}: damaged: not valid JSON ({error}); restore the file") from None
    is_row = isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] < 1 << 53
    if not is_row or not all(value is None or isinstance(value, str | int | float) for value in row.values()):
        raise DataError(f"{where}: damaged: not a row of metrics; restore the file")
    return row  # type: ignore[no-any-return]
