"""Plan shards from the names of files and folders: the files to read, and their outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dikkat_runtime.errors import MissingInputError, UsageError, plural
from dikkat_runtime.shards.formats import FORMAT_NAMES, KNOWN, FormatName, format_of
from dikkat_runtime.shards.shard import Shard

_HIDDEN = (".", "_")
"""Beginnings of names in a folder that are no data: those of this command, of Spark, of editors."""


@dataclass(slots=True)
class Plan:
    """All shards of a call in the order of their names, and files of folders that are none."""

    shards: list[Shard] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)


def plan_shards(inputs: Sequence[Path], out: Path, asked: FormatName | None = None) -> Plan:
    """Return a shard a file; files of a folder keep their path below it, and those in `out` are none.

    Raises `MissingInputError` for what is not there, and `UsageError` for a format that is not known, two files with
    one output, and an output that would take the place of its input.
    """
    plan = Plan()
    for path in inputs:
        if path.is_dir():
            _add_folder(plan, path, out, asked)
        elif path.exists():
            _add(plan, path, out / path.name, asked, is_named=True)
        else:
            raise MissingInputError(f"{path}: there is no such file or folder")
    if not plan.shards:
        raise MissingInputError(f"{', '.join(map(str, inputs))}: no files to read; formats: {KNOWN}")
    by_output = dict[Path, Shard]()
    for shard in plan.shards:
        other = by_output.setdefault(shard.output, shard)
        if other is not shard:
            raise UsageError(f"{other.source} and {shard.source} would both become {shard.output}; call twice")
        if shard.output.exists() and shard.output.samefile(shard.source):
            raise UsageError(f"{shard.source}: would be replaced by its own output; give another --out")
    plan.shards.sort(key=lambda shard: str(shard.output))
    return plan


def part_of(shards: Sequence[Shard], part: str) -> list[Shard]:
    """Return the shards of one task of a job array, `part` being as in 3/8. Raises `UsageError`."""
    number, slash, total = part.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise UsageError(f"--shard {part}: give the number of the task, from 1, and how many there are, as in 3/8")
    return list(shards[int(number) - 1 :: int(total)])


def _add_folder(plan: Plan, folder: Path, out: Path, asked: FormatName | None) -> None:
    for path in _files(folder, out):
        _add(plan, path, out / path.relative_to(folder), asked, is_named=False)


def _files(folder: Path, out: Path) -> Iterator[Path]:
    outputs = out.resolve()
    for where, folders, names in os.walk(folder):
        known = (name for name in folders if not name.startswith(_HIDDEN))
        folders[:] = sorted(name for name in known if Path(where, name).resolve() != outputs)
        yield from (Path(where, name) for name in sorted(names) if not name.startswith(_HIDDEN))


def _add(plan: Plan, path: Path, output: Path, asked: FormatName | None, *, is_named: bool) -> None:
    known = format_of(path, asked)
    if known is not None:
        plan.shards.append(Shard(path, output, known, path.stat().st_size))
    elif is_named:
        raise UsageError(
            f"{path}: its name tells no format ({KNOWN}); name one with --format: {', '.join(FORMAT_NAMES)}"
        )
    else:
        plan.passed_over.append(path)


def passed_over_line(paths: Sequence[Path]) -> str:
    """Return one line on files that were passed over."""
    return f"passed over {plural(len(paths), 'file')} of other formats, as {paths[0]}"
