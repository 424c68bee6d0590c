"""One file with its outputs: rows, a record of their origin, and rows that failed."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dikkat_runtime.errors import DataError, MissingInputError, StoppedError, unreadable
from dikkat_runtime.files import read_regular
from dikkat_runtime.rows.contract import Format
from dikkat_runtime.rows.packed_files import reading_errors
from dikkat_runtime.strict_json import parse_json

MAX_RECORD_SIZE = 1 << 20
"""Bytes."""
_BLOCK = 1 << 20
State = tuple[int, int, int]
"""Size, time of the last change, and number of a file."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of rows, and where its output goes."""

    source: Path
    output: Path
    format: Format
    size: int = 0
    """Bytes of the source when it was listed."""

    @property
    def record(self) -> Path:
        """The file that records the origin of the output; readers of tables skip a name with an underscore."""
        return self.output.with_name(f"_{self.output.name}.json")

    @property
    def errors(self) -> Path:
        """The file of the rows that failed."""
        return self.output.with_name(f"_{self.output.name}.errors.jsonl")

    def to_json(self) -> dict[str, Any]:
        """Return all fields as values of JSON."""
        return {
            "source": str(self.source),
            "output": str(self.output),
            "format": [self.format.name, self.format.packing],
            "size": self.size,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Shard":
        """Return the shard of `to_json`."""
        return cls(Path(values["source"]), Path(values["output"]), Format(*values["format"]), values["size"])


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of an open file from its beginning."""
    file.seek(0)
    digest = hashlib.sha256()
    while content := file.read(_BLOCK):
        digest.update(content)
    return digest.hexdigest()


def read_record(path: Path) -> dict[str, Any] | None:
    """Return what a record or the description of a folder says, None where there is none.

    Raises `DataError` for a damaged one.
    """
    try:
        content = parse_json(read_regular(path, MAX_RECORD_SIZE))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DataError("{path}: damaged: not valid JSON; remove it, and --force makes its file again", path)
    return dict(content)


def record_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a record as it stands in its file."""
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def is_whole(shard: Shard, fingerprint: Mapping[str, Any]) -> bool:
    """Return whether the output is there, made by the same model and options from the file as it is now.

    Raises `DataError` for an output that was made otherwise, from another content, or by somebody else.
    """
    if not shard.output.exists():
        return False
    record = read_record(shard.record)
    if record is None:
        raise DataError(
            "{output}: exists already, and was not written by this command; move it, or give --force", shard.output
        )
    if any(record.get(name) != value for name, value in fingerprint.items()):
        raise DataError("{output}: was made by another model or other options; --force makes it again", shard.output)
    with reading_errors(shard.output):
        if not _is_as_written(shard, record):
            raise DataError("{output}: has changed since it was written; --force makes it again", shard.output)
    with reading_errors(shard.source):
        status = shard.source.stat()
        if status.st_size == record.get("input_bytes") and status.st_mtime_ns == record.get("input_mtime_ns"):
            return True
        with shard.source.open("rb") as file:
            if digest_of(file) == record.get("input_sha256"):
                return True
    raise DataError(
        "{source}: has changed since {output} was made from it; --force makes it again", shard.source, shard.output
    )


def _is_as_written(shard: Shard, record: Mapping[str, Any]) -> bool:
    """Tell whether the output has its recorded content, which is read where it is younger than the record."""
    status = shard.output.stat()
    if status.st_size != record.get("output_bytes"):
        return False
    if status.st_mtime_ns <= shard.record.stat().st_mtime_ns or "output_sha256" not in record:
        return True
    with shard.output.open("rb") as file:
        return bool(digest_of(file) == record["output_sha256"])


def state_of(raw: IO[bytes]) -> State:
    """Return size, time of the last change, and number of an open file, by which a changed one is known."""
    return _state(os.fstat(raw.fileno()))


def _state(status: os.stat_result) -> State:
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextmanager
def unchanged(raw: IO[bytes], path: Path) -> Iterator[State]:
    """Yield the state of an open file, which stays as it is in the body, and is still what `path` names.

    Raises `StoppedError` where it does not, also where the body found it damaged or missing for that reason.
    """
    before = state_of(raw)
    try:
        yield before
    except (DataError, MissingInputError):
        if _is_changed(raw, path, before):
            raise changed_while_read(path) from None
        raise
    if _is_changed(raw, path, before):
        raise changed_while_read(path)


def _is_changed(raw: IO[bytes], path: Path, before: State) -> bool:
    try:
        return {state_of(raw), _state(path.stat())} != {before}
    except OSError:
        return True


def changed_while_read(path: Path) -> StoppedError:
    """Return the error for a file that did not stay as it was."""
    return StoppedError("{path}: changed while it was read; run the command again once it no longer changes", path)
