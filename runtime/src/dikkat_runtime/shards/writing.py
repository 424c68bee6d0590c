"""The work on one file: its rows through a model, and the output whole or absent."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from dikkat_runtime.files import make_folder, sync_directory, temporary_next_to, write_errors, write_new
from dikkat_runtime.rows.contract import Failure, RowReader, Values
from dikkat_runtime.rows.line_rows import JsonLines, LineReader, PlainText, RecordFormat
from dikkat_runtime.rows.packed_files import open_shard, reading_errors
from dikkat_runtime.rows.parquet_rows import ParquetReader
from dikkat_runtime.rows.table_rows import Table
from dikkat_runtime.shards.models import RowModel
from dikkat_runtime.shards.shard import Shard, digest_of, record_bytes, unchanged
from dikkat_runtime.shards.work import Job

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


def answered(model: RowModel, texts: Sequence[str | None]) -> list[Values | None]:
    """Return the values of each text, None where there is none."""
    values = iter(model.answers([text for text in texts if text is not None]))
    return [None if text is None else next(values) for text in texts]


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
            answers = answered(model, chunk.texts)
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
        # after an error nothing that is still buffered is wanted
        for file in (self.file, self._errors):
            if file is not None:
                with suppress(OSError):
                    file.close()
        for path in (self._temporary, self._errors_temporary, self._note):
            path.unlink(missing_ok=True)

    def fail(self, failures: Sequence[Failure]) -> None:
        """Note rows that failed."""
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
