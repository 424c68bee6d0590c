"""Plan shards from the names of files and folders: the files to read, and their outputs."""

from __future__ import annotations

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
    sources = {_identity(shard.source): shard for shard in plan.shards}
    for shard in plan.shards:
        other = by_output.setdefault(shard.output, shard)
        if other is not shard:
            raise UsageError(f"{other.source} and {shard.source} would both become {shard.output}; call twice")
        replaced = sources.get(_identity(shard.output)) if shard.output.exists() else None
        if replaced is not None:
            whose = "its own output" if replaced is shard else f"the output of {shard.source}"
            raise UsageError(f"{replaced.source}: would be replaced by {whose}; give another --out")
    plan.shards.sort(key=lambda shard: str(shard.output))
    return plan


def shards_of_part(shards: Sequence[Shard], part: str) -> list[Shard]:
    """Return the shards of one task of a job array, `part` being as in 3/8. Raises `UsageError`."""
    number, slash, total = part.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise UsageError(f"--shard {part}: give the number of the task, from 1, and how many there are, as in 3/8")
    return list(shards[int(number) - 1 :: int(total)])


def _add_folder(plan: Plan, folder: Path, out: Path, asked: FormatName | None) -> None:
    for path in _files(folder, out.resolve(), ()):
        _add(plan, path, out / path.relative_to(folder), asked, is_named=False)


def _files(folder: Path, outputs: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all files below a folder but those in `outputs`; links are followed, but not to a folder `above`."""
    here = folder.resolve()
    if here in above or (above and here == outputs):
        return
    try:
        # a folder may be listed, and what is in it be out of reach
        paths = [(path, path.is_dir()) for path in sorted(folder.iterdir()) if not path.name.startswith(_HIDDEN)]
    except OSError as error:
        raise MissingInputError(f"{folder}: cannot be read: {error.strerror}") from None
    for path, is_folder in paths:
        if is_folder:
            yield from _files(path, outputs, (*above, here))
        else:
            yield path


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _add(plan: Plan, path: Path, output: Path, asked: FormatName | None, *, is_named: bool) -> None:
    known = format_of(path, asked)
    if known is not None:
        try:
            size = path.stat().st_size
        except OSError as error:
            # a link to nothing, else
            raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
        plan.shards.append(Shard(path, output, known, size))
    elif is_named:
        raise UsageError(
            f"{path}: its name tells no format ({KNOWN}); name one with --format: {', '.join(FORMAT_NAMES)}"
        )
    else:
        plan.passed_over.append(path)


def passed_over_line(paths: Sequence[Path]) -> str:
    """Return one line on files that were passed over."""
    return f"passed over {plural(len(paths), 'file')} of other formats, as {paths[0]}"
