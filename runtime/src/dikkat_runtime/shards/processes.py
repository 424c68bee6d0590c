"""Workers that are processes of this computer."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import IO, Any, Protocol

from dikkat_runtime.errors import from_json, msg
from dikkat_runtime.shards.work import Job, to_json
from dikkat_runtime.shards.worker import Reply

SILENT_SECONDS = 600.0
"""Seconds without a sign of life after which a worker is lost; it gives one each second, however slow its work is."""
ENDS_WITHIN = 10.0
"""Seconds in which a worker that was killed ends, unless it waits for a disk or a network that does not answer."""


class Workers(Protocol):
    """Workers by their numbers, wherever they run."""

    def start(self, number: int) -> None:
        """Start a worker, or start it again; `ready`, `failed` or `died` will be its first reply."""

    def send(self, number: int, command: Mapping[str, Any]) -> None:
        """Give a worker that has nothing to do a command."""

    def receive(self, timeout: float) -> list[tuple[int, Reply]]:
        """Wait at most so many seconds for replies, and return them; after `died` the worker is gone."""

    def close(self) -> None:
        """End all workers, whatever they do."""


class LocalWorkers:
    """Each worker is a child process that ends when this one does."""

    def __init__(self, job: Job, fingerprint: Mapping[str, Any]) -> None:
        self._job, self._fingerprint = job, fingerprint
        self._processes = dict[int, subprocess.Popen[bytes]]()
        self._unread = dict[int, bytearray]()
        self._silent = dict[int, float]()
        """Seconds that were waited for each worker since its last sign of life."""
        self._selector = selectors.DefaultSelector()

    def start(self, number: int) -> None:
        variables = {**self._job.thread_variables, "PYTHONPATH": os.pathsep.join(search_path())}
        with _no_ctrl_c():
            process = subprocess.Popen(
                # a file of the user in the current folder must not take the place of a module
                [sys.executable, "-P", "-m", "dikkat_runtime.shards.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **variables},
            )
        self._processes[number], self._unread[number] = process, bytearray()
        self._silent[number] = 0.0
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, number)
        self.send(number, {"job": to_json(self._job), "fingerprint": dict(self._fingerprint)})

    def send(self, number: int, command: Mapping[str, Any]) -> None:
        """Write a command to a worker; that it is gone already is told by `receive`, or was with its last replies."""
        process = self._processes.get(number)
        if process is None:
            return
        pipe = _pipe(process.stdin)
        with suppress(BrokenPipeError):
            pipe.write(json.dumps(command).encode() + b"\n")
            pipe.flush()

    def receive(self, timeout: float) -> list[tuple[int, Reply]]:
        """Return replies that came within `timeout` seconds; a worker that is silent for too long has died."""
        replies = list[tuple[int, Reply]]()
        began = monotonic()
        ready = self._selector.select(timeout)
        # it takes longer where this process itself was stopped, and its workers with it
        waited = min(monotonic() - began, timeout)
        for number in self._silent:
            self._silent[number] += waited
        for key, _ in ready:
            self._silent[key.data] = 0.0
            replies += [(key.data, reply) for reply in self._read(key.data) if "beat" not in reply]
        for number in [number for number, seconds in self._silent.items() if seconds > SILENT_SECONDS]:
            self._end(number)
            replies.append((number, {"died": msg("did not respond for {minutes:.0f} minutes", SILENT_SECONDS / 60)}))
        return replies

    def _read(self, number: int) -> Iterator[Reply]:
        process, unread = self._processes[number], self._unread[number]
        content = os.read(_pipe(process.stdout).fileno(), 1 << 16)
        unread += content
        *lines, rest = bytes(unread).split(b"\n")
        unread[:] = rest
        for line in lines:
            reply = json.loads(line, object_hook=from_json)
            if "died" in reply:
                # before another worker gets its number
                self._end(number)
                yield reply
                return
            yield reply
        if not content:
            code = self._end(number)
            yield {"died": _reason(code), "memory": code == -signal.SIGKILL}

    def _end(self, number: int) -> int:
        process = self._processes.pop(number)
        del self._silent[number]
        self._selector.unregister(_pipe(process.stdout))
        process.kill()
        with suppress(BrokenPipeError):
            _pipe(process.stdin).close()
        _pipe(process.stdout).close()
        try:
            return process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            # it dies once its disk answers; whoever waited for that would answer no Ctrl-C meanwhile
            return -signal.SIGKILL

    def close(self) -> None:
        """Kill all workers; none is waited for before all are killed."""
        for process in self._processes.values():
            process.kill()
        for number in list(self._processes):
            self._end(number)
        self._selector.close()


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Start processes in the body that Ctrl-C does not reach from their first moment; this one answers it after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


def search_path() -> list[str]:
    """The folders in which this process finds modules, but the current one."""
    return [folder for folder in sys.path if folder and os.path.isabs(folder)]


def _reason(code: int) -> str:
    if code >= 0:
        return msg("ended with {code}", code)
    name = signal.Signals(-code).name
    if name == "SIGKILL":
        return msg("killed by {signal}, perhaps because memory is short", name)
    return msg("killed by {signal}", name)
