"""Parts of a large file: each worker answers some chunks of rows, and one of them writes the output of all."""

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from dikkat_runtime.errors import DataError, DikkatError, StoppedError, UsageError, msg
from dikkat_runtime.files import TEMPORARY_PREFIX, make_folder, write_atomically, write_errors
from dikkat_runtime.rows.contract import Values
from dikkat_runtime.rows.packed_files import open_shard, reading_errors
from dikkat_runtime.shards.models import RowModel
from dikkat_runtime.shards.shard import (
    Shard,
    changed_while_read,
    is_whole,
    read_record,
    record_bytes,
    state_of,
    unchanged,
)
from dikkat_runtime.shards.work import Job, Work
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

    def __enter__(self) -> "_AnsweredModel":
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
    if before is None or (is_alone and (force or not _has_records(folder))):
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


def _has_records(folder: Path) -> bool:
    return any(path.name != DESCRIPTION for path in folder.rglob("_*.json"))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def missing_shards(shards: Sequence[Shard], fingerprint: Mapping[str, Any], *, force: bool) -> list[Shard]:
    """Return the shards whose output is not whole; what was left half-written of any is removed.

    Raises `DataError` for an output that is not what this call would write, unless `force` writes it anew.
    """
    remove_half_written(shards)
    missing = []
    for shard in shards:
        try:
            is_done = is_whole(shard, fingerprint)
        except DataError:
            if not force:
                raise
            is_done = False
        if not is_done:
            missing.append(shard)
    return missing


def remaining_shards(shards: Sequence[Shard], fingerprint: Mapping[str, Any]) -> list[Shard]:
    """Return the shards whose output is not whole, or would be refused; nothing is removed."""

    def is_done(shard: Shard) -> bool:
        try:
            return is_whole(shard, fingerprint)
        except DikkatError:
            return False

    return [shard for shard in shards if not is_done(shard)]


def remove_half_written(shards: Sequence[Shard], *, keep_answers: bool = False) -> None:
    """Remove what was left half-written of the outputs of `shards`; with `keep_answers`, not the answers of parts.

    Another task of a job array may be writing the rest of the folder. Raises `DiskError` or `CannotCreateError`.
    """
    names: dict[Path, set[str]] = {}
    for shard in shards:
        names.setdefault(shard.output.parent, set()).update(
            path.name for path in (shard.output, shard.errors, shard.record)
        )
    for folder, own in names.items():
        for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
            match = _HALF_WRITTEN.fullmatch(path.name)
            if match and match["name"] in own and not (keep_answers and match["answers"]):
                with write_errors(path):
                    path.unlink(missing_ok=True)
