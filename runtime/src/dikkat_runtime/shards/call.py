"""Run one call of `translate-files`, from the names of files to the report at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from dikkat_runtime.errors import UsageError, plural
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.shards.driver import Driver, Result, fingerprint_of
from dikkat_runtime.shards.job import Job
from dikkat_runtime.shards.locking import locked
from dikkat_runtime.shards.output_folder import describe, missing_shards, remaining_shards
from dikkat_runtime.shards.planning import passed_over_line, plan_shards, shards_of_part
from dikkat_runtime.shards.processes import LocalWorkers, Workers
from dikkat_runtime.shards.shard import Shard
from dikkat_runtime.shards.work import share_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options of a call, beside its job."""

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
    fingerprint = fingerprint_of(job)
    notes = [passed_over_line(plan.passed_over)] if plan.passed_over else []
    if call.estimate:
        missing = remaining_shards(shards, fingerprint)
        if missing:
            with _driver(job, call, missing, fingerprint, stream) as driver:
                driver.say("\n".join([*notes, driver.estimate(alone=True)]))
        return Result(whole_before=len(shards) - len(missing))

    def begin(is_alone: bool) -> None:
        describe(call.out, fingerprint, force=call.force, is_alone=is_alone)

    with locked(call.out, call.part, begin):
        missing = missing_shards(shards, fingerprint, force=call.force)
        result = Result()
        if missing:
            with _driver(job, call, missing, fingerprint, stream) as driver:
                driver.say("\n".join([*notes, driver.estimate()]))
                result = driver.run()
        result.whole_before = len(shards) - len(missing)
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
            driver.say(f"{plural(num_workers, 'worker')}, since there is not enough to do for more")
        yield driver
    finally:
        driver.close()


def _require_columns(job: Job, shards: Sequence[Shard]) -> None:
    """Raises `UsageError` where a column is named and every file is plain text."""
    named = "--column" if job.column else "--output-column" if job.output_column else ""
    if named and all(shard.format.name == "text" for shard in shards):
        raise UsageError(f"{named}: text has no columns; leave it out, or name the format of a table with --format")


def require_processors(workers: int | None, threads: int | None) -> None:
    """Raises `UsageError` where more threads are asked for than there are processors."""
    processors = usable_processors()
    asked = (workers or 1) * (threads or 1)
    if asked > processors:
        raise UsageError(
            f"{plural(workers or 1, 'worker')} of {plural(threads or 1, 'thread')} need {asked} processors, and this"
            f" process may use {processors}; give a smaller --workers or --threads"
        )


def local_share(workers: int | None, threads: int | None, shards: Sequence[Shard]) -> tuple[int, int]:
    """Return how many workers there are on this computer, and how many threads each has."""
    processors = usable_processors()
    wanted = workers or max(1, processors // (threads or 1))
    num_workers = min(len(share_out(shards, wanted)), wanted)
    return num_workers, threads or max(1, processors // num_workers)
