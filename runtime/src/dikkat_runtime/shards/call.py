"""Run one call of `translate-files`, from the names of files to the report at the end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from dikkat_runtime.errors import MissingInputError, UsageError, joined, msg, plural
from dikkat_runtime.files import reading_errors
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.rows.contract import FORMAT_NAMES, KNOWN, FormatName, format_of
from dikkat_runtime.rows.locks import locked
from dikkat_runtime.shards.driver import Driver, Result
from dikkat_runtime.shards.processes import LocalWorkers, Workers
from dikkat_runtime.shards.work import Job, Shard, model_fingerprint, share_out
from dikkat_runtime.shards.writing import describe, missing_shards, remaining_shards

_HIDDEN = (".", "_")
"""Beginnings of names in a folder that are not data: those of this command, of Spark, of editors."""


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
            for inner in _files(path, out.resolve(), ()):
                _add(plan, inner, out / inner.relative_to(path), asked, is_named=False)
        elif path.exists():
            _add(plan, path, out / path.name, asked, is_named=True)
        else:
            raise MissingInputError("{path}: there is no such file or folder", path)
    if not plan.shards:
        raise MissingInputError("{inputs}: no files to read; formats: {known}", ", ".join(map(str, inputs)), KNOWN)
    by_output = dict[Path, Shard]()
    sources = {_identity(shard.source): shard for shard in plan.shards}
    for shard in plan.shards:
        other = by_output.setdefault(shard.output, shard)
        if other is not shard:
            raise UsageError("{source} and {other} would both be written to {output}; use two commands").fill(
                other.source, shard.source, shard.output
            )
        replaced = sources.get(_identity(shard.output)) if shard.output.exists() else None
        if replaced is not None:
            whose = msg("its own output") if replaced is shard else msg("the output of {source}", shard.source)
            raise UsageError("{source}: would be replaced by {output}; give another --out", replaced.source, whose)
    plan.shards.sort(key=lambda shard: str(shard.output))
    return plan


def shards_of_part(shards: Sequence[Shard], part: str) -> list[Shard]:
    """Return the shards of one task of a job array, `part` being as in 3/8. Raises `UsageError`."""
    number, slash, total = part.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise UsageError(
            "--shard {shard}: give the number of the task, from 1, and how many there are, as in 3/8", part
        )
    return list(shards[int(number) - 1 :: int(total)])


def _files(folder: Path, outputs: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all files below a folder but those in `outputs`; links are followed, but not to a folder `above`."""
    here = folder.resolve()
    if here in above or (above and here == outputs):
        return
    with reading_errors(folder):
        # a folder may be listed, and what is in it be out of reach
        paths = [(path, path.is_dir()) for path in sorted(folder.iterdir()) if not path.name.startswith(_HIDDEN)]
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
        with reading_errors(path):
            # a link to nothing, else
            size = path.stat().st_size
        plan.shards.append(Shard(path, output, known, size))
    elif is_named:
        raise UsageError("{path}: its name does not tell its format ({known}); name it with --format: {formats}").fill(
            path, KNOWN, ", ".join(FORMAT_NAMES)
        )
    else:
        plan.passed_over.append(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options of a call, next to its job."""

    inputs: Sequence[Path]
    out: Path
    workers: int | None = None
    """None for as many as there are processors, or files and parts of large files."""
    threads: int | None = None
    """Threads of each worker; None for its share of the processors."""
    ray: bool = False
    ray_address: str = ""
    """Address of a running cluster; where it is empty, one of this computer is started."""
    part: str | None = None
    """A task of a job array, such as 3/8; None for all files."""
    force: bool = False
    estimate: bool = False
    """True if only an estimate of the time is printed."""


def run_call(job: Job, call: Call, stream: IO[str] | None) -> Result:
    """Run a call and return its result; `stream` gets the progress.

    Raises `UsageError`, `MissingInputError` and `DataError` for faults that are seen before any work,
    `CannotCreateError` for an output folder that another call holds, `DiskError` for a full disk. `Result.check` raises
    for files that could not be used.
    """
    plan = plan_shards(call.inputs, call.out, job.format)
    shards = shards_of_part(plan.shards, call.part) if call.part is not None else plan.shards
    _require_columns(job, plan.shards)
    if not call.ray:
        require_processors(call.workers, call.threads)
    # as they stand in each record
    fingerprint = {"model": model_fingerprint(job), "options": job.options}
    notes = list[str]()
    if others := plan.passed_over:
        notes.append(msg("skipped {files} of other formats, such as {paths}", plural(len(others), "file"), others[0]))
    if call.estimate:
        missing = remaining_shards(shards, fingerprint)
        if missing:
            with _driver(job, call, missing, fingerprint, stream) as driver:
                driver.say(joined("\n", [*notes, driver.estimate(alone=True)]))
        return Result(skipped_items=len(shards) - len(missing))

    def begin(is_alone: bool) -> None:
        describe(call.out, fingerprint, force=call.force, is_alone=is_alone)

    with locked(call.out, call.part, begin):
        missing = missing_shards(shards, fingerprint, force=call.force)
        result = Result()
        if missing:
            with _driver(job, call, missing, fingerprint, stream) as driver:
                driver.say(joined("\n", [*notes, driver.estimate()]))
                result = driver.run()
        result.skipped_items = len(shards) - len(missing)
        return result


@contextmanager
def _driver(
    job: Job, call: Call, shards: Sequence[Shard], fingerprint: Mapping[str, Any], stream: IO[str] | None
) -> Iterator[Driver]:
    """Yield a driver with the requested workers, which end with it."""
    workers: Workers
    if call.ray:
        from dikkat_runtime.shards.ray_workers import RayWorkers, ray_share

        num_workers, threads = ray_share(call.workers, call.threads, call.ray_address, shards)
        workers = RayWorkers(replace(job, threads=threads), fingerprint)
    else:
        num_workers, threads = local_share(call.workers, call.threads, shards)
        workers = LocalWorkers(replace(job, threads=threads), fingerprint)
    driver = Driver(workers, num_workers, shards, stream, threads=threads)
    try:
        if call.workers is not None and num_workers < call.workers:
            driver.say(msg("{workers}, since there is not enough to do for more", plural(num_workers, "worker")))
        yield driver
    finally:
        driver.close()


def _require_columns(job: Job, shards: Sequence[Shard]) -> None:
    """Raises `UsageError` where a column is named and every file is plain text."""
    named = "--column" if job.column else "--output-column" if job.output_column else ""
    if named and all(shard.format.name == "text" for shard in shards):
        raise UsageError(
            "{path}: text has no columns; leave it out, or name the format of a table with --format", named
        )


def require_processors(workers: int | None, threads: int | None) -> None:
    """Raises `UsageError` where more threads are asked for than there are processors."""
    processors = usable_processors()
    asked = (workers or 1) * (threads or 1)
    if asked > processors:
        raise UsageError(
            "{workers} of {threads} need {needed} processors, and this process may use {processors}; give a "
            "smaller --workers or --threads"
        ).fill(plural(workers or 1, "worker"), plural(threads or 1, "thread"), asked, processors)


def local_share(workers: int | None, threads: int | None, shards: Sequence[Shard]) -> tuple[int, int]:
    """Return how many workers there are on this computer, and how many threads each has."""
    processors = usable_processors()
    wanted = workers or max(1, processors // (threads or 1))
    num_workers = min(len(share_out(shards, wanted)), wanted)
    return num_workers, threads or max(1, processors // num_workers)
