"""Parts of a large file: each worker answers some chunks of rows, and one of them writes the output of all."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import IO, Any

import numpy as np

from dikkat_runtime.errors import StoppedError
from dikkat_runtime.files import make_folder, write_errors
from dikkat_runtime.shards.job import Job
from dikkat_runtime.shards.models import RowModel
from dikkat_runtime.shards.packed_files import open_shard, reading_errors
from dikkat_runtime.shards.rows import Values
from dikkat_runtime.shards.shard import changed_while_read, state_of, unchanged
from dikkat_runtime.shards.work import Work
from dikkat_runtime.shards.writing import OnProgress, open_rows, write_shard


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
    with _AnsweredModel(work, model, (work.joined or {})["counts"]) as answered:
        return write_shard(work.shard, job, answered, fingerprint, on_progress)


class _AnsweredModel:
    """A model whose answers stand in the files of the parts, chunk by chunk in turn."""

    def __init__(self, work: Work, model: RowModel, counts: Mapping[str, int]) -> None:
        self._work, self._model, self._total = work, model, counts
        self.info, self.columns, self.fingerprint = model.info, model.columns, model.fingerprint
        self.counts = Counter[str]()
        self._files: list[IO[bytes]] = []
        self._open = ExitStack()
        self._chunk = 0

    def __enter__(self) -> _AnsweredModel:
        for path in self._work.answers:
            with reading_errors(path):
                self._files.append(self._open.enter_context(path.open("rb")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return the answers to the texts of the next chunk."""
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
        """Return what the command for lines prints for a text with these values."""
        return self._model.line_of(text, values)


def _encoded(value: Any) -> Any:
    """Return a value of a column as JSON: a vector of float32 by its bytes, all others as they are."""
    return {"float32": base64.b64encode(value.tobytes()).decode()} if isinstance(value, np.ndarray) else value


def _decoded(value: Any) -> Any:
    return np.frombuffer(base64.b64decode(value["float32"]), np.float32) if isinstance(value, dict) else value
