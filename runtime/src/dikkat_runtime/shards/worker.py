"""A worker: a process with a model of its own that works on files for a driver, with a line of JSON each way.

It ends with the driver: when its standard input ends, even in the middle of its work.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from dikkat_runtime.errors import DikkatError, StoppedError, came_of_memory, msg, to_json
from dikkat_runtime.notices import hide_library_warnings, listen
from dikkat_runtime.shards.models import RowModel
from dikkat_runtime.shards.work import Job, Work
from dikkat_runtime.shards.writing import answer_part, join_parts, sample_shard, write_shard

PROGRESS_EVERY = 0.5
"""Seconds."""
BEAT_EVERY = 1.0
"""Seconds after which a worker tells again that it runs, whatever it does."""
Reply = dict[str, Any]
"""One of `ready`, `note`, `progress`, `sampled`, `answered`, `done`, `failed`, `died` and `beat`, with what is said of
it; `died` may come with `memory`, where that was short.
"""
Send = Callable[[Reply], object]


class Worker:
    """A model and its work on the files that it is sent."""

    def __init__(self, job: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
        """Open the model.

        Raises what its opener raises, and `StoppedError` where it is not the one that the call began with.
        """
        self._job, self._fingerprint = Job.from_json(job), dict(fingerprint)
        module, _, name = self._job.opener.partition(":")
        self._model: RowModel = getattr(import_module(module), name)(self._job)
        if self._model.fingerprint != self._fingerprint["model"]:
            raise StoppedError("{run}: has changed since this command started; run it again", self._job.run)

    @property
    def ready(self) -> Reply:
        """The reply before the first file."""
        return {"ready": str(self._model.info)}

    def __call__(self, command: Mapping[str, Any], send: Send) -> Reply:
        """Do a command, and return the reply that ends it; `send` gets the progress."""
        work, progress = Work.from_json(command["work"]), _Progress(send)
        try:
            if command["do"] == "sample":
                return {"sampled": sample_shard(work.shard, self._job, self._model)}
            if work.is_part:
                return {"answered": answer_part(work, self._job, self._model, progress)}
            if work.joined is not None:
                return {"done": join_parts(work, self._job, self._model, self._fingerprint, progress)}
            return {"done": write_shard(work.shard, self._job, self._model, self._fingerprint, progress)}
        except DikkatError as error:
            if came_of_memory(error):
                raise
            return failure(error)


def failure(error: DikkatError) -> Reply:
    """Return the reply for an error that a user can mend."""
    return {"failed": str(error), "exit_code": error.exit_code}


def death(error: BaseException) -> Reply:
    """Return the reply of a worker that ends by an error that may not come again."""
    if came_of_memory(error):
        return {"died": msg("ran out of memory (a smaller --workers or --beam takes less)"), "memory": True}
    return {"died": " ".join(f"{type(error).__name__}: {error}".split())}


class Replies:
    """A sender of replies, each as a whole line, whichever threads send some at once."""

    def __init__(self, write: Callable[[memoryview], int | None]) -> None:
        """`write` writes the first bytes to the pipe, and returns their number."""
        self._write, self._one_at_a_time = write, threading.Lock()

    def __call__(self, reply: Reply) -> None:
        """Send a reply."""
        unwritten = memoryview(json.dumps({name: to_json(value) for name, value in reply.items()}).encode() + b"\n")
        with self._one_at_a_time:
            while unwritten:
                # only a part of a long reply, where this process was stopped while the pipe was full
                unwritten = unwritten[self._write(unwritten) :]


class _Progress:
    def __init__(self, send: Send) -> None:
        self._send, self._last = send, time.monotonic()

    def __call__(self, rows: int, fraction: float) -> None:
        if time.monotonic() - self._last >= PROGRESS_EVERY:
            self._last = time.monotonic()
            self._send({"progress": rows, "fraction": fraction})


def main() -> None:
    """Serve the driver at the other ends of standard input and output."""
    # Ctrl-C reaches the whole group of processes; the driver says when it is over
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hide_library_warnings()
    # a buffered pipe would crash Python at its end where a thread holds its lock
    send = Replies(os.fdopen(os.dup(1), "wb", buffering=0).write)
    # what a library prints is not a reply
    os.dup2(2, 1)
    threading.Thread(target=_beat, args=(send,), daemon=True).start()
    commands = queue.SimpleQueue[dict[str, Any]]()
    threading.Thread(target=_listen, args=(commands,), daemon=True).start()
    first = commands.get()
    listen(_Notes(send))
    try:
        worker = Worker(first["job"], first["fingerprint"])
        send(worker.ready)
        while True:
            send(worker(commands.get(), send))
    except BaseException as error:  # also a panic of a tokenizer, which is not an `Exception`
        if isinstance(error, DikkatError) and not came_of_memory(error):
            send(failure(error))
            return
        if os.environ.get("DIKKAT_DEBUG"):
            traceback.print_exc()
        send(death(error))


def _beat(send: Send) -> None:
    """Tell the driver that this process runs, as long as it listens."""
    with suppress(OSError):
        while True:
            time.sleep(BEAT_EVERY)
            send({"beat": True})


class _Notes:
    """A listener that passes on the messages about the native kernels."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def compiling(self, done: int, total: int) -> None:
        if not done:
            self._send({"note": msg("compiling the native kernels for this processor, once: {total} files …", total)})

    def stopped_compiling(self) -> None:
        pass

    def note(self, text: str) -> None:
        self._send({"note": text})


def _listen(commands: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Pass commands on; where there are no more, end the process even in the middle of its work."""
    for line in sys.stdin.buffer:
        commands.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
