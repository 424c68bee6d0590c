"""Write `metrics.jsonl`: append rows, cut them back, and bring them to where a checkpoint was saved."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dikkat.run_directory.checkpoints import Checkpoint
from dikkat_runtime.files import append_line, write_atomically
from dikkat_runtime.run.metrics import lines_of, read_metrics, with_seal
from dikkat_runtime.run.parts import check_file


def append_metrics(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row, and sync it to disk. Raises `DiskError` or `CannotCreateError`."""
    before = b"".join(line + b"\n" for line in lines_of(path))
    append_line(path, with_seal(_to_line(row), hashlib.sha256(before)))


def write_metrics(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace all rows. Raises `DiskError` or `CannotCreateError`."""
    content, digest = b"", hashlib.sha256()
    for row in rows:
        line = with_seal(_to_line(row), digest) + b"\n"
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
    elif (content := b"".join(line + b"\n" for line in lines_of(path))) != copy:
        # what was written after the checkpoint will be written again
        write_atomically(path, copy)
        if not content.startswith(copy):
            return [f"{path} was damaged; its rows are restored from {checkpoint.path.name}"]
    return []


def _to_line(row: Mapping[str, Any]) -> bytes:
    # JSON has no NaN: other programs could not read the file.
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(finite, ensure_ascii=False).encode()
