"""`metrics.jsonl`: one line of JSON for each validation, in the order of the steps.

Each carries the hash of the settings it was measured under, so that no score is shown next to another model's settings
(fault F12), and last the SHA-256 of itself and all lines before it, so that a line that was changed or lost is noticed.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, MissingInputError, msg
from dikkat_runtime.files import read_regular, reading_errors
from dikkat_runtime.notices import note
from dikkat_runtime.run.config import read_settings
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import CONFIG, LIMITS, MANIFEST, METRICS, check_file
from dikkat_runtime.run.strict_json import parse_json

SETTINGS_HASH = "settings_sha256"
"""Key of the hash of the settings in a row."""
_DIGEST = "sha256"
_SEALED = re.compile(rb'(, "sha256": "([0-9a-f]{64})")\}')
_SEAL_LENGTH = len(f', "{_DIGEST}": ""}}') + 64
_MAX_LINE_LENGTH = 1 << 21
"""Bytes of a row: a classifier of several labels has a column for each of them."""


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 of settings as JSON, independent of order, spacing and the command that set them."""
    kept = {key: value for key, value in settings.items() if key != "command"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def metrics_of_run(run: Path) -> list[dict[str, Any]]:
    """Return all rows of a run, each with the hash of its settings.

    Raises `DataError` with file and line, or `MissingInputError`.
    """
    return read_metrics(checked(run, METRICS))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return all rows; none when there is no file yet. A last line cut short by a crash is not a row.

    Raises `DataError` with file and line for a line that is not a row of numbers, or does not match its checksum.
    """
    content, rows = hashlib.sha256(), []
    for number, line in enumerate(lines_of(path), start=1):
        where = f"{path}:{number}"
        row = _from_line(line, where)
        seal = _SEALED.fullmatch(line, max(0, len(line) - _SEAL_LENGTH))
        if seal is None or with_seal(line[: seal.start()] + b"}", content) != line:
            raise DataError(
                "{where}: damaged: this line or one before it was changed or is missing; restore the file", where
            )
        del row[_DIGEST]
        rows.append(row)
        content.update(line + b"\n")
    return rows


def foreign_rows(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[int]:
    """Return the numbers (from 1) of the rows that were measured under other settings."""
    own = settings_hash(settings)
    return [number for number, row in enumerate(rows, start=1) if row.get(SETTINGS_HASH) != own]


def note_changed_settings(run: Path) -> None:
    """Note when a run without a manifest has other settings than its scores were measured with.

    What changes no shape, as the number of heads, changes what a model computes without any other sign.
    """
    with suppress(DataError, MissingInputError):
        if check_file(run / MANIFEST) is not None:
            return
        if len(rows := metrics_of_run(run)) in foreign_rows(rows, read_settings(run)):
            note(
                msg(
                    "{config}: was changed after the scores of the run were measured, so it may compute "
                    "something else; {run} has no manifest.json, and nothing else can be checked"
                ).fill(run / CONFIG, run)
            )


def lines_of(path: Path) -> list[bytes]:
    """Return the complete lines; none where there is no file.

    Raises `DataError` for what is not a file, `MissingInputError` for one that cannot be read.
    """
    if check_file(path) is None:
        return []
    with reading_errors(path):
        return read_regular(path, LIMITS[METRICS]).split(b"\n")[:-1]


def with_seal(line: bytes, before: Any) -> bytes:
    """Return `line` with the checksum of itself and of what the digest `before` has seen."""
    digest = before.copy()
    digest.update(line)
    return line[:-1] + f', "{_DIGEST}": "{digest.hexdigest()}"}}'.encode()


def _from_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        if len(line) > _MAX_LINE_LENGTH:
            raise ValueError(f"has more than {_MAX_LINE_LENGTH:,} bytes")
        row = parse_json(line)
    except ValueError as error:
        raise DataError("{path}: damaged: not valid JSON ({error}); restore the file", where, error) from None
    is_row = isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] < 1 << 53
    if not is_row or not all(value is None or isinstance(value, str | int | float) for value in row.values()):
        raise DataError("{where}: damaged: not a row of metrics; restore the file", where)
    return row  # type: ignore[no-any-return]
