"""Keep worker processes that read documents: a few, some of them warm, each of which can be ended at any moment."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from dikkat_runtime.errors import msg, reason_of
from dikkat_runtime.localization import say
from dikkat_runtime.server.frames import HEAD, Fields, frame
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.shards.processes import search_path

_MODULE = "dikkat_runtime.server.document_worker"
NICENESS = 10
"""Documents yield to requests."""
_BEGIN = f"""
import contextlib, os, runpy, sys
os.nice({NICENESS})
# Linux weighs sessions against each other, and a worker has its own
with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
    group.write("{NICENESS}")
runpy.run_module(sys.argv[2], run_name="__main__")
"""
"""The program of a worker, which yields already while it loads its modules."""
_START_SECONDS = 120.0
"""Time in which a worker must be ready; on a busy machine it takes many times as long as on an idle one."""
_ENDS_WITHIN = 5.0
_MAX_FIELDS = 256 << 20
_MAX_WARM = 2
"""Workers that wait for work."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class WorkerEnded(Exception):  # noqa: N818  (whoever waits for it says what is wrong)
    """A worker is gone, or gives no sign of life."""

    def __init__(self, code: int | None) -> None:
        """`code` is its exit code, None where it was silent for too long."""
        super().__init__("gave no sign of life" if code is None else msg("ended with {code}", code))
        self.code = code

    @property
    def took_too_long(self) -> bool:
        """True if it was ended by its limit of time."""
        return self.code is None or self.code == -getattr(signal, "SIGXCPU", 0)


class Worker:
    """One process at the other end of two pipes."""

    def __init__(self, transport: asyncio.SubprocessTransport, process: Process) -> None:
        self._transport, self._process = transport, process
        self.is_busy = self.ends = False

    @classmethod
    async def start(cls) -> "Worker":
        """Start a process. Raises `WorkerEnded` where it does not come up."""
        loop, path = asyncio.get_running_loop(), os.pathsep.join(search_path())
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=1 << 20, loop=loop),
            # a file of the user in the current folder must not take the place of a module
            *(sys.executable, "-P", "-c", _BEGIN, str(os.getpid()), _MODULE),
            stdin=PIPE, stdout=PIPE, stderr=None if os.environ.get("DIKKAT_DEBUG") else DEVNULL,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path}, start_new_session=True,
        )  # fmt: skip
        worker = cls(transport, Process(transport, protocol, loop))
        try:
            await worker.receive(_START_SECONDS, 0)
        except BaseException:
            worker.kill()
            raise
        return worker

    @property
    def identity(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """False once the process has ended."""
        return self._process.returncode is None

    async def send(self, fields: Fields, data: bytes = b"") -> None:
        """Send a message. Raises `WorkerEnded`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame(fields, data))
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except OSError:
            raise WorkerEnded(await self._exit_code()) from None

    async def receive(self, seconds: float, most: int) -> tuple[Fields, bytes]:
        """Return the next message and its bytes, of which there may be `most`. Raises `WorkerEnded`."""
        assert self._process.stdout is not None
        read = self._process.stdout.readexactly
        try:
            async with asyncio.timeout(seconds):
                fields_size, data_size = HEAD.unpack(await read(HEAD.size))
                if fields_size > _MAX_FIELDS or data_size > most:
                    raise RequestError("costly", "the translated document is too large")
                return json.loads(await read(fields_size)), await read(data_size)
        except TimeoutError:
            raise WorkerEnded(None) from None
        except (OSError, asyncio.IncompleteReadError):
            raise WorkerEnded(await self._exit_code()) from None

    async def _exit_code(self) -> int | None:
        await self.wait()
        if self.is_alive:
            self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """End the process at once."""
        self._transport.close()

    async def wait(self) -> None:
        """Wait until the process has ended, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._process.wait()


class Turns:
    """Turns among owners: one who brings much work waits longer, and not those who bring little."""

    def __init__(self, count: int) -> None:
        """At most `count` have their turn at once."""
        self._free = count
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, owner: str, wait: Callable[[asyncio.Future[None]], Awaitable[None]]) -> AsyncIterator[None]:
        """Begin a turn, for which `wait` is called where it is not free; it ends with the block. Raises as `wait`."""
        if self._free:
            self._free -= 1
        else:
            future = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(owner, deque()).append(future)
            try:
                await wait(future)
            except BaseException:
                if future.done() and not future.cancelled():
                    self._pass_on()
                future.cancel()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to the next owner; who has had one comes last."""
        while self._waiting:
            owner, futures = next(iter(self._waiting.items()))
            del self._waiting[owner]
            while futures and futures[0].done():
                futures.popleft()
            if futures:
                future = futures.popleft()
                if futures:
                    self._waiting[owner] = futures
                future.set_result(None)
                return
        self._free += 1


class WorkerPool:
    """The workers of one server."""

    def __init__(self) -> None:
        self._workers, self._ending = set[Worker](), set[asyncio.Task[None]]()
        self._warming: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def identities(self) -> list[int]:
        return [worker.identity for worker in list(self._workers) if worker.is_alive]

    def warm_up(self) -> None:
        """Start a worker that waits for work, unless there is one."""
        if not self._is_closed and not self._idle() and (self._warming is None or self._warming.done()):
            self._warming = asyncio.ensure_future(self._start_one())

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Worker]:
        """Yield a worker; one that is left by an error, in the middle of its work, is ended.

        Raises `RequestError` where none comes up.
        """
        worker = await self._any()
        worker.is_busy = True
        self.warm_up()
        try:
            yield worker
            worker.is_busy = False
        finally:
            if worker.is_busy or worker.ends or self._is_closed or len(self._idle()) > _MAX_WARM:
                self._end(worker)

    def kill(self) -> None:
        """Kill all workers, from any thread of a process that is about to end."""
        for identity in self.identities:
            with suppress(OSError):
                os.kill(identity, signal.SIGKILL)

    async def close(self) -> None:
        self._is_closed = True
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        for worker in list(self._workers):
            self._end(worker)
        await asyncio.gather(*self._ending)
        # the loop closes the pipes in its next turn
        await asyncio.sleep(0)

    async def _any(self) -> Worker:
        if self._is_closed:
            raise RequestError("unavailable", "the server has ended", retry_after=1)
        if self._warming is not None and not self._warming.done() and not self._idle():
            await asyncio.wait([self._warming])
        if idle := self._idle():
            return idle[0]
        try:
            return await self._start()
        except (WorkerEnded, OSError) as error:
            why = reason_of(error) if isinstance(error, OSError) else error
            say("a process to read documents did not start: {error}", why)
            message = "no process to read it can be started; send it again later"
            raise RequestError("unavailable", message, retry_after=5) from None

    def _idle(self) -> list[Worker]:
        for worker in [worker for worker in self._workers if not worker.is_alive]:
            self._workers.discard(worker)
        return [worker for worker in self._workers if not worker.is_busy]

    async def _start(self) -> Worker:
        worker = await Worker.start()
        self._workers.add(worker)
        return worker

    async def _start_one(self) -> None:
        with suppress(WorkerEnded, OSError):
            await self._start()

    def _end(self, worker: Worker) -> None:
        worker.kill()
        self._workers.discard(worker)
        ending = asyncio.ensure_future(worker.wait())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
