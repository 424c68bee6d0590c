"""The folder of the outputs: by what it is made, which outputs are whole, and what was left half-written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, DikkatError, UsageError, msg
from dikkat_runtime.files import TEMPORARY_PREFIX, write_atomically, write_errors
from dikkat_runtime.shards.shard import Shard, is_whole, read_record, record_bytes

DESCRIPTION = "_job.json"
"""The file in an output folder with the model and the options of all its files."""
_HALF_WRITTEN = re.compile(
    re.escape(TEMPORARY_PREFIX) + r"(?P<name>.+)-(?:[0-9a-f]{8}|(?P<answers>part-\d+-of-\d+))", re.DOTALL
)
"""A name that `temporary_beside` or `Work.answers_of` gives; "a.txt" is not half of "a.txt-b.txt"."""


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
