"""Workers that are actors of Ray, on this computer or on a cluster whose nodes see the same files."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dikkat_runtime.errors import DikkatError, MissingInputError, UsageError, msg, plural
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.process_signals import signals_held
from dikkat_runtime.shards.processes import search_path
from dikkat_runtime.shards.work import Job, Shard, share_out, to_json
from dikkat_runtime.shards.worker import Reply, Worker, failure

START_SECONDS = 120.0
"""Within which an actor must have opened its model; a cluster without room for it would be waited for without end."""


def reach_ray(switch: str, package: str, address: str) -> Any:
    """Start Ray on this computer, or reach the cluster at `address`, and return its module.

    Raises `UsageError`, which names `switch` and the `package` with its extra, where Ray is not installed, and
    `MissingInputError` where no cluster answers.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("{switch} needs Ray; pip install '{package}[ray]'", switch, package) from None
    if not ray.is_initialized():
        own = {} if address else {"num_cpus": usable_processors(), "include_dashboard": False}
        try:
            # it answers no signal while it waits, and crashes where one ends it half-way
            with signals_held():
                ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
        except Exception as error:
            # a plain Exception is what Ray raises where its processes do not come up in time
            reason = " ".join(str(error).split())
            if address and "RAY_AUTH_MODE" not in os.environ:
                # unless told so, Ray sends its token to no address that was named
                raise MissingInputError(
                    "no Ray at {address}: {reason}; if it asks for a token, set RAY_AUTH_MODE=token", address, reason
                ) from None
            raise MissingInputError("no Ray at {address}: {reason}", address or msg("this computer"), reason) from None
    return ray


def ray_share(workers: int | None, threads: int | None, address: str, shards: Sequence[Shard]) -> tuple[int, int]:
    """Start Ray, or reach the cluster at `address`, and return the number of workers and of threads of each.

    One processor is left free where `workers` is None. Raises `UsageError` where Ray is not
    installed or fewer processors are free than requested, and `MissingInputError` where no cluster answers.
    """
    ray = reach_ray("--ray", "dikkat-runtime", address)
    free = int(ray.available_resources().get("CPU", 0))
    asked = (workers or 1) * (threads or 1)
    if asked > free:
        total = int(ray.cluster_resources().get("CPU", 0))
        raise UsageError(
            "{workers} of {threads} need {needed} processors, but Ray has {free} of {total} free; give a "
            "smaller --workers or --threads"
        ).fill(plural(workers or 1, "worker"), plural(threads or 1, "thread"), asked, free, total)
    threads_each = threads or 1
    wanted = workers or max(1, (free - 1) // threads_each)
    return min(len(share_out(shards, wanted)), wanted), threads_each


class _Actor:
    def __init__(self, job: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
        self._arguments = job, fingerprint
        self._worker: Worker | None = None

    def ready(self) -> Reply:
        try:
            self._worker = Worker(*self._arguments)
        except DikkatError as error:
            return failure(error)
        return self._worker.ready

    def work(self, command: Mapping[str, Any]) -> Reply:
        if self._worker is None:
            raise RuntimeError("the model was not opened")
        return self._worker(command, lambda reply: None)


class RayWorkers:
    """Each worker is an actor; it reports files that are done, and no progress within a file."""

    def __init__(self, job: Job, fingerprint: Mapping[str, Any]) -> None:
        """Take the cluster that `ray_share` has reached."""
        import ray

        self._ray, self._job, self._fingerprint = ray, job, dict(fingerprint)
        variables = {**job.thread_variables, "PYTHONPATH": os.pathsep.join(search_path())}
        self._kind = ray.remote(_Actor).options(
            num_cpus=job.threads, max_restarts=0, runtime_env={"env_vars": variables}
        )
        self._actors = dict[int, Any]()
        self._pending = dict[Any, int]()
        self._started = dict[int, float]()
        """When actors were started that are not ready yet."""

    def start(self, number: int) -> None:
        self._end(number)
        self._actors[number] = self._kind.remote(to_json(self._job), self._fingerprint)
        self._pending[self._actors[number].ready.remote()] = number
        self._started[number] = time.monotonic()

    def send(self, number: int, command: Mapping[str, Any]) -> None:
        self._pending[self._actors[number].work.remote(dict(command))] = number

    def receive(self, timeout: float) -> list[tuple[int, Reply]]:
        if not self._pending:
            return []
        replies = list[tuple[int, Reply]]()
        finished, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        for reference in finished:
            number = self._pending.pop(reference)
            self._started.pop(number, None)
            try:
                replies.append((number, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                self._end(number)
                replies.append((number, {"died": msg("ended: {error}", str(error).strip().splitlines()[0])}))
        for number, started in list(self._started.items()):
            if time.monotonic() - started > START_SECONDS:
                self._end(number)
                replies.append((number, {"died": msg("did not start within {start_seconds:.0f} s", START_SECONDS)}))
        return replies

    def _end(self, number: int) -> None:
        self._started.pop(number, None)
        actor = self._actors.pop(number, None)
        if actor is not None:
            self._pending = {reference: other for reference, other in self._pending.items() if other != number}
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)

    def close(self) -> None:
        """End all actors, and Ray with them where it was started here."""
        for number in list(self._actors):
            self._end(number)
        self._ray.shutdown()
