"""The work on one file: its rows through a model, or some chunks of them, and the output whole or absent."""

import base64
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from dikkat_runtime.errors import DataError, DikkatError, StoppedError, UsageError, msg
from dikkat_runtime.files import (
    TEMPORARY_PREFIX,
    make_folder,
    reading_errors,
    sync_directory,
    temporary_next_to,
    write_atomically,
    write_errors,
    write_new,
)
from dikkat_runtime.rows.contract import Failure, RowReader, Values
from dikkat_runtime.rows.line_rows import JsonLines, LineReader, PlainText, RecordFormat, Table
from dikkat_runtime.rows.packed_files import open_shard
from dikkat_runtime.rows.parquet_rows import ParquetReader
from dikkat_runtime.shards.models import RowModel
from dikkat_runtime.shards.work import (
    Job,
    Shard,
    Work,
    changed_while_read,
    digest_of,
    is_whole,
    read_record,
    record_bytes,
    state_of,
    unchanged,
)

SAMPLE_ROWS = 512
"""Rows that are answered for an estimate."""
_SAMPLE_BYTES = 1 << 20
"""Of the file, read for an estimate of its rows."""
OnProgress = Callable[[int, float], object]
"""Gets the number of rows that are done and the share of the file."""


def open_rows(raw: IO[bytes], shard: Shard, job: Job, model: RowModel) -> RowReader:
    """Return what reads the rows of an open file. Raises `DataError`, and `UsageError` for a column to be named."""
    name, path = shard.format.name, shard.source
    if name == "parquet":
        return ParquetReader(raw, path, job.column, model.columns)
    records: RecordFormat
    if name == "text":
        records = PlainText(model.line_of)
    elif name == "jsonl":
        records = JsonLines(path, job.column, model.columns)
    else:
        records = Table(path, job.column, model.columns)
    return LineReader(raw, path, shard.format.packing, records)


def write_shard(
    shard: Shard, job: Job, model: RowModel, fingerprint: Mapping[str, Any], on_progress: OnProgress
) -> dict[str, Any]:
    """Write the output of one file, the rows that failed, and the record; return the record.

    The record is renamed before the output: where the output stands, both are whole. Raises `StoppedError` where the
    file changes while it is read, and the errors of `open_rows` and of `dikkat_runtime.files.write_errors`.
    """
    model.counts.clear()
    with open_shard(shard.source) as raw:
        with write_errors(shard.output):
            make_folder(shard.output.parent)
        with _Parts(shard) as output:
            with unchanged(raw, shard.source) as before:
                counts = _write_rows(open_rows(raw, shard, job, model), model, output, on_progress)
                with reading_errors(shard.source):
                    digest = digest_of(raw)
            record = {
                "input": str(shard.source),
                "input_bytes": before[0],
                "input_mtime_ns": before[1],
                "input_sha256": digest,
                **counts,
                **{name: model.counts[name] for name in ("cut", "looped", "unfinished")},
                **fingerprint,
            }
            output.commit(record)
    return record


def _write_rows(reader: RowReader, model: RowModel, output: "_Parts", on_progress: OnProgress) -> dict[str, int]:
    """Write all rows, and return how many there are, how many are empty, and how many failed."""
    rows, empty, failed = 0, 0, 0
    writer = None
    try:
        for chunk in reader.chunks():
            values = iter(model.answers([text for text in chunk.texts if text is not None]))
            answers = [None if text is None else next(values) for text in chunk.texts]
            with write_errors(output.path):
                writer = writer or reader.writer(output.file)
                writer.write(chunk, answers)
            output.fail(chunk.failures)
            rows += len(chunk.texts)
            failed += len(chunk.failures)
            empty += sum(not text or text.isspace() for text in chunk.texts) - len(chunk.failures)
            on_progress(rows, reader.fraction)
        with write_errors(output.path):
            (writer or reader.writer(output.file)).close()
    except BaseException:
        # else what packs would write its end when the file is closed already
        with suppress(Exception):
            if writer is not None:
                writer.close()
        raise
    return {"rows": rows, "empty": empty, "failed": failed}


class _Parts:
    """The half-written files of one shard, removed where they do not take their places."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self.path = shard, shard.output
        self._temporary = temporary_next_to(shard.output)
        self._errors_temporary = temporary_next_to(shard.errors)
        self._note = temporary_next_to(shard.record)
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> "_Parts":
        with write_errors(self._shard.output):
            self.file = self._temporary.open("xb")
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.file, self._errors):
            if file is not None:
                _close(file)
        for path in (self._temporary, self._errors_temporary, self._note):
            path.unlink(missing_ok=True)

    def fail(self, failures: Sequence[Failure]) -> None:
        if not failures:
            return
        with write_errors(self._shard.errors):
            if self._errors is None:
                self._errors = self._errors_temporary.open("xb")
            for failure in failures:
                row = {"file": str(self._shard.source), "row": failure.row, "reason": failure.reason}
                self._errors.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def commit(self, record: dict[str, Any]) -> None:
        """Let the files take their places, the output last."""
        shard = self._shard
        with write_errors(shard.output):
            for file in (self.file, self._errors):
                if file is not None:
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()
            record["output_bytes"] = self._temporary.stat().st_size
            with self._temporary.open("rb") as written:
                record["output_sha256"] = digest_of(written)
            write_new(self._note, record_bytes(record))
            # an output of before is gone first: it would seem to belong to the new record
            shard.output.unlink(missing_ok=True)
            shard.errors.unlink(missing_ok=True)
            if self._errors is not None:
                os.replace(self._errors_temporary, shard.errors)
            os.replace(self._note, shard.record)
            # whatever of this a power cut leaves, no output stands there without its record
            sync_directory(shard.output.parent)
            os.replace(self._temporary, shard.output)
            sync_directory(shard.output.parent)


def sample_shard(shard: Shard, job: Job, model: RowModel) -> dict[str, float]:
    """Return what the first rows of a file say of all: `rows` of the file, about, and `seconds` for all of them."""
    with open_shard(shard.source) as raw:
        reader = open_rows(raw, shard, job, model)
        seen, empty, characters, sample = 0, 0, 0, list[str]()
        for chunk in reader.chunks():
            texts = [text for text in chunk.texts if text and not text.isspace()]
            sample += texts[: SAMPLE_ROWS - len(sample)]
            seen += len(chunk.texts)
            empty += len(chunk.texts) - len(texts)
            characters += sum(map(len, texts))
            if sample and raw.tell() > _SAMPLE_BYTES:
                break
        # lines of like length are answered together, so the first of them stand for all
        seconds = _seconds_of(model, sample) * characters / max(1, sum(map(len, sample)))
        if empty:
            seconds += _seconds_of(model, [""] * SAMPLE_ROWS) * empty / SAMPLE_ROWS
        share = max(reader.fraction, 1e-9)
        return {"rows": seen / share, "seconds": seconds / share}


def _seconds_of(model: RowModel, texts: Sequence[str]) -> float:
    begun = time.perf_counter()
    model.answers(texts)
    return time.perf_counter() - begun


def answer_part(work: Work, job: Job, model: RowModel, on_progress: OnProgress) -> dict[str, Any]:
    """Write the answers of one part of a file, a line of JSON each; return what joining needs to know of it.

    Raises `StoppedError` where the file changes while it is read, and the errors of `open_rows` and of writing.
    """
    model.counts.clear()
    rows, path = 0, work.answers_of(work.part)
    with open_shard(work.shard.source) as raw, unchanged(raw, work.shard.source) as before, ExitStack() as stack:
        reader = open_rows(raw, work.shard, job, model)
        with write_errors(path):
            make_folder(path.parent)
            file = path.open("wb")
        stack.callback(_close, file)
        for number, chunk in enumerate(reader.chunks()):
            if number % work.parts != work.part:
                continue
            answers = model.answers([text for text in chunk.texts if text is not None])
            with write_errors(path):
                file.writelines(json.dumps([*map(_encoded, values)]).encode() + b"\n" for values in answers)
            rows += len(chunk.texts)
            on_progress(rows, reader.fraction)
        with write_errors(path):
            file.close()
    return {"rows": rows, "state": before, "counts": dict(model.counts)}


def _close(file: IO[bytes]) -> None:
    # after an error nothing that is still buffered is wanted, and a full disk has no room for it either
    with suppress(OSError):
        file.close()


def joined(replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the parts of a file have found together, of the results of `answer_part`.

    A file that changed between them has several states.
    """
    counts = Counter[str]()
    for reply in replies:
        counts.update(reply["counts"])
    states = {tuple(reply["state"]) for reply in replies}
    return {"counts": dict(counts), "states": sorted(states)}


def join_parts(
    work: Work, job: Job, model: RowModel, fingerprint: Mapping[str, Any], on_progress: OnProgress
) -> dict[str, Any]:
    """Write the output of a file of the answers of its parts; return the record, as `write_shard`.

    Raises `StoppedError` where the file has changed since a part was answered, or answers are missing.
    """
    with open_shard(work.shard.source) as raw, reading_errors(work.shard.source):
        if [list(state) for state in (work.joined or {})["states"]] != [list(state_of(raw))]:
            raise changed_while_read(work.shard.source)
    with ExitStack() as stack:
        files = list[IO[bytes]]()
        for path in work.answers:
            with reading_errors(path):
                files.append(stack.enter_context(path.open("rb")))
        answered = _AnsweredModel(work, model, (work.joined or {})["counts"], files)
        return write_shard(work.shard, job, answered, fingerprint, on_progress)


class _AnsweredModel:
    """A model whose answers stand in the files of the parts, chunk by chunk in turn."""

    def __init__(self, work: Work, model: RowModel, counts: Mapping[str, int], files: list[IO[bytes]]) -> None:
        self._work, self._model, self._total, self._files = work, model, counts, files
        self.info, self.columns, self.fingerprint = model.info, model.columns, model.fingerprint
        self.counts = Counter[str]()
        self._chunk = 0

    def answers(self, texts: Sequence[str]) -> list[Values]:
        part = self._chunk % self._work.parts
        self._chunk += 1
        self.counts = Counter(self._total)
        values = list[Values]()
        for _ in texts:
            line = self._files[part].readline()
            if not line.endswith(b"\n"):
                path = self._work.answers_of(part)
                raise StoppedError("{path}: holds too few answers; run the command again", path)
            values.append(tuple(map(_decoded, json.loads(line))))
        return values

    def line_of(self, text: str, values: Values) -> str:
        return self._model.line_of(text, values)


def _encoded(value: Any) -> Any:
    """Return a value of a column as JSON: a vector of float32 by its bytes, all others as they are."""
    return {"float32": base64.b64encode(value.tobytes()).decode()} if isinstance(value, np.ndarray) else value


def _decoded(value: Any) -> Any:
    return np.frombuffer(base64.b64decode(value["float32"]), np.float32) if isinstance(value, dict) else value


# The folder of the outputs: by what it is made, which outputs are whole, and what was left half-written.


DESCRIPTION = "_job.json"
"""The file in an output folder with the model and the options of all its files."""
_HALF_WRITTEN = re.compile(
    re.escape(TEMPORARY_PREFIX) + r"(?P<name>.+)-(?:[0-9a-f]{8}|(?P<answers>part-\d+-of-\d+))", re.DOTALL
)
"""A name that `temporary_next_to` or `Work.answers_of` gives; "a.txt" is not half of "a.txt-b.txt"."""


def describe(folder: Path, fingerprint: Mapping[str, Any], *, force: bool, is_alone: bool = True) -> None:
    """Write by what model and options the outputs in `folder` are made, or compare with what stands there.

    Raises `UsageError` where another model or other options stand there and something was made by them, unless `force`
    replaces them. While others write the folder (not `is_alone`), nothing replaces what they go by.
    """
    path = folder / DESCRIPTION
    before = read_record(path)
    if before == fingerprint:
        return
    has_records = any(other.name != DESCRIPTION for other in folder.rglob("_*.json"))
    if before is None or (is_alone and (force or not has_records)):
        write_atomically(path, record_bytes(fingerprint))
        return
    difference = _difference(before, fingerprint)
    if not is_alone:
        raise UsageError(
            "{folder}: is being written by {difference}; wait until that ends, or give another --out"
        ).fill(folder, difference)
    raise UsageError("{folder}: was made by {difference}; give another --out, or --force to overwrite its files").fill(
        folder, difference
    )


def _difference(before: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> str:
    old, new = before.get("options", {}), fingerprint["options"]
    # an option that is not there was not asked for
    changed = [name for name in {**old, **new} if old.get(name, False) != new.get(name, False)]
    if not changed:
        return msg("another model, or an older dikkat")
    name = changed[0]
    return msg("{name} {before}, not {now}", name, _shown(old.get(name, False)), _shown(new.get(name, False)))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def missing_shards(shards: Sequence[Shard], fingerprint: Mapping[str, Any], *, force: bool) -> list[Shard]:
    """Return the shards whose output is not whole; what was left half-written of any is removed.

    Raises `DataError` for an output that is not what this call would write, unless `force` writes it anew.
    """
    remove_half_written(shards)
    return remaining_shards(shards, fingerprint, (DataError,) if force else ())


def remaining_shards(
    shards: Sequence[Shard], fingerprint: Mapping[str, Any], refused: tuple[type[DikkatError], ...] = (DikkatError,)
) -> list[Shard]:
    """Return the shards whose output is not whole, or is `refused` by such an error; nothing is removed."""
    remaining = []
    for shard in shards:
        with suppress(*refused):
            if is_whole(shard, fingerprint):
                continue
        remaining.append(shard)
    return remaining


def remove_half_written(shards: Sequence[Shard], *, keep_answers: bool = False) -> None:
    """Remove what was left half-written of the outputs of `shards`; with `keep_answers`, not the answers of parts.

    Another task of a job array may be writing the rest of the folder. Raises `DiskError` or `CannotCreateError`.
    """
    names = defaultdict[Path, set[str]](set)
    for shard in shards:
        names[shard.output.parent] |= {path.name for path in (shard.output, shard.errors, shard.record)}
    for folder, own in names.items():
        for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
            match = _HALF_WRITTEN.fullmatch(path.name)
            if match and match["name"] in own and not (keep_answers and match["answers"]):
                with write_errors(path):
                    path.unlink(missing_ok=True)
