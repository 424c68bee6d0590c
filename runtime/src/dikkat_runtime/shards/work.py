"""A file with its outputs, and the work that a worker is sent: all of it, some chunks, or the joining of its parts."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Literal

from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import BeamOptions, Device, Formality
from dikkat_runtime.engine.precision import RECORD, PrecisionName
from dikkat_runtime.engine.shortlist import SHORTLIST
from dikkat_runtime.errors import DataError, MissingInputError, StoppedError, unreadable
from dikkat_runtime.files import TEMPORARY_PREFIX, read_regular, reading_errors
from dikkat_runtime.rows.contract import Format, FormatName
from dikkat_runtime.run.parts import TARGET_TOKENIZER, WORD_TABLE
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.tasks.corrections import FILE_NAME

MAX_RECORD_SIZE = 1 << 20
"""Bytes."""
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


def digest_of(file: BufferedReader) -> str:
    """Return the SHA-256 of an open file from its beginning."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


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


# The work on every file of a call, and its fingerprint, by which a later call recognises it.


Task = Literal["translate", "classify", "embed"]
TASK_OF_KIND: dict[str, Task] = {"translator": "translate", "classifier": "classify"}
"""The work of a kind of model, by its name in config.json; all others embed."""
RUNTIME_OPENER = "dikkat_runtime.shards.models:open_model"
_FILES = ("config.json", "tokenizer.json", TARGET_TOKENIZER, RECORD, SHORTLIST, FILE_NAME)
_CLASSIFIER_FILES = ("metrics.jsonl", WORD_TABLE)
"""A classifier reads its temperature and its table there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The model of a call, and the options of its work on each row."""

    run: Path
    task: Task
    precision: PrecisionName = "auto"
    engine: EngineName = "auto"
    device: Device = "cpu"
    beam: int = BeamOptions().beam_size
    length_penalty: float | None = None
    """The exponent of the length; None for that of the run."""
    formality: Formality = "default"
    format: FormatName | None = None
    """The format of all files; None where the name of each decides."""
    column: str = ""
    """The column with the text, by name, or by number from 1 in a table without a header."""
    output_column: str = ""
    """The name of the first new column; that of the task where it is empty."""
    corrections: bool = True
    """True if a text that a person has corrected comes back as corrected."""
    all_words: bool = False
    """True if the shortlist of words of a translator is left aside."""
    opener: str = RUNTIME_OPENER
    """`module:function` that makes the model in a worker."""
    threads: int = 1

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Job":
        return cls(**{**values, "run": Path(values["run"])})

    @property
    def thread_variables(self) -> dict[str, str]:
        """The environment in which a worker computes, and cuts texts into tokens, by `threads` threads."""
        # the tokenizers have threads of their own (rayon), as many as processors unless they are told
        return dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(self.threads))

    @property
    def options(self) -> dict[str, Any]:
        """The options that change the output, next to the model."""
        return {name: value for name, value in asdict(self).items() if name not in ("run", "threads", "opener")}


def model_fingerprint(job: Job) -> str:
    """Return the SHA-256 over everything in the run directory that changes an output.

    Raises `MissingInputError` or `DataError` where the weights cannot be read.
    """
    digest = hashlib.sha256(read_checksum(job.run / "model.safetensors").encode())
    for name in (*_FILES, *(_CLASSIFIER_FILES if job.task == "classify" else ())):
        if (name == FILE_NAME and not job.corrections) or (name == SHORTLIST and job.all_words):
            continue
        path = job.run / name
        with reading_errors(path):
            content = path.read_bytes() if path.exists() else b""
        digest.update(json.dumps([name, hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()


SPLIT_FROM = 1 << 20
"""Bytes of a file from which several workers may share it; one that is smaller is a few chunks of rows."""
MAX_PARTS = 16
"""Parts of a file, each of which reads all of it; more would read longer than they compute."""
_PIECES = 4
"""Pieces of like size that each worker gets at least, if files are large, so that all end at about the same time."""


@dataclass(frozen=True, slots=True)
class Work:
    """Answer a file and write its output; or with several `parts`, answer one part; or write what they answered."""

    shard: Shard
    part: int = 0
    """From 0; this part has the chunks `part`, `part` + `parts`, …"""
    parts: int = 1
    joined: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the parts of a file have found together, where the work is to write its output."""

    @property
    def is_part(self) -> bool:
        """True if answers alone are written, for another worker to write the output."""
        return self.parts > 1 and self.joined is None

    @property
    def size(self) -> float:
        """The bytes of the file whose rows are answered."""
        return 0.0 if self.joined is not None else self.shard.size / self.parts

    def answers_of(self, part: int) -> Path:
        """Return the file with the answers of one part, which counts as half-written."""
        output = self.shard.output
        return output.with_name(f"{TEMPORARY_PREFIX}{output.name}-part-{part + 1}-of-{self.parts}")

    @property
    def answers(self) -> list[Path]:
        """The files with the answers of all parts; none for a file that is not split."""
        return [self.answers_of(part) for part in range(self.parts)] if self.parts > 1 else []

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Work":
        shard = values["shard"]
        paths = Path(shard["source"]), Path(shard["output"])
        return cls(**{**values, "shard": Shard(*paths, Format(**shard["format"]), shard["size"])})


def to_json(item: Job | Work) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(asdict(item), default=str))
    return fields


def share_out(shards: Sequence[Shard], num_workers: int) -> list[Work]:
    """Return the work on files for so many workers, the largest first; large files are split into parts."""
    total = sum(shard.size for shard in shards)
    fair = max(1.0, total / (num_workers * _PIECES))
    work = list[Work]()
    for shard in shards:
        parts = min(num_workers, math.ceil(shard.size / fair), MAX_PARTS) if shard.size >= SPLIT_FROM else 1
        work += [Work(shard, part, parts) for part in range(parts)]
    return sorted(work, key=lambda item: -item.size)
