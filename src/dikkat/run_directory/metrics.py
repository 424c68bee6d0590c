"""`metrics.jsonl`: one line of JSON for each validation, in the order of the steps.

Each carries the hash of the settings it was measured under, so that no score is shown beside another model's settings
(fault F12).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat.disk import append_line, write_atomically
from dikkat.errors import DataError

SETTINGS_HASH = "settings_sha256"
"""The key of that hash in a row."""


def settings_hash(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings as JSON can hold them, whatever their order and spacing, and whatever command gave them."""
    kept = {key: value for key, value in settings.items() if key != "command"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def append_metrics(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row, on the disk when this returns. Raises `DiskError` or `CannotCreateError`."""
    append_line(path, _to_line(row))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All rows; none when there is no file yet. A last line cut short by a crash is not a row.

    Raises `DataError` with file and line for a line that is not a JSON object.
    """
    if not path.exists():
        return []
    complete_lines = path.read_bytes().split(b"\n")[:-1]
    return [_from_line(line, f"{path}:{number}") for number, line in enumerate(complete_lines, start=1)]


def truncate_metrics(path: Path, after_step: int) -> None:
    """Drop the rows later than `after_step`, which a resumed run will write again. Raises as `read_metrics`."""
    rows = read_metrics(path)
    kept = [row for row in rows if row.get("step", 0) <= after_step]
    if len(kept) < len(rows):
        write_atomically(path, b"".join(_to_line(row) + b"\n" for row in kept))


def _to_line(row: Mapping[str, Any]) -> bytes:
    # JSON has no NaN: other programs could not read the file.
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(finite, ensure_ascii=False).encode()


def _from_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: damaged: not valid JSON ({error}); remove the line") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: damaged: not a row of metrics; remove the line")
    return row
