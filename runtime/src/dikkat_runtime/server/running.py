"""Run a server from its settings: the port, the models, the signals, and an orderly end."""

import asyncio
import contextlib
import errno
import gc
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn

from dikkat_runtime.errors import UsageError, msg, reason_of
from dikkat_runtime.localization import say
from dikkat_runtime.server.application import build_application
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.connections import bounded_protocol
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.settings import ServeSettings

_GRACE_SECONDS = 0.3
"""Seconds between refusing new requests and closing the port: waiting connections are answered."""
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 100
_NO_FILES_SECONDS = 1.0
_NEXT_TURN = 0.01
_GIVING_UP, _CUTTING_OFF = 0.6, 0.7
"""Shares of the time to drain after which requests are answered that the server has ended, and cut off."""
_MIN_BETWEEN = 1.0
"""Least seconds from the first to the second: a busy machine needs them to send those answers."""
_KILLED = 0.9
"""Share of the time to drain after which the process ends, whatever any thread of it does."""
_LAST_SECONDS = 3.0
"""Least seconds until then."""
_YOUNG_OBJECTS, _NEVER = (5_000, 10), 2**31 - 1
"""New objects after which garbage is collected among them, and how often until among those that survived once."""
_COLLECTION_SECONDS = 10.0
"""Seconds between two full collections of garbage."""


def run_server(settings: ServeSettings) -> int:
    """Serve until a signal comes, and return the exit code. Raises the errors of a run, a key file or the port."""
    listener = listen(settings.host, settings.port)
    try:
        _raise_file_limit()
        catalog = Catalog(
            settings.runs,
            settings.precision,
            settings.threads,
            all_words=settings.all_words,
            memories=settings.memories,
            note=say,
        )
        server = _Server(Services(settings, catalog), listener)
        # what stays until the end is not looked at in every collection of garbage
        gc.collect()
        gc.freeze()
        # all threads wait for a full collection, which takes as long as there are objects of large requests
        gc.set_threshold(*_YOUNG_OBJECTS, _NEVER)
        # the event loop waits at most so long for the engine thread to release Python
        sys.setswitchinterval(0.001)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            return runner.run(server.run())
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `UsageError` where the port is taken or the host is not this machine."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError("{host}: not an address of this machine ({reason})", host, reason_of(error)) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reasons = {
            errno.EADDRINUSE: msg("the port is taken; give another --port"),
            errno.EACCES: msg("the port may not be used; give --port a number above 1023"),
        }
        reason = reasons.get(error.errno or 0, msg("cannot listen there: {reason}", reason_of(error)))
        raise UsageError("{host}:{port}: {reason}", host, port, reason) from None
    return listener


class _Server(uvicorn.Server):
    """The web server with signals of our own: TERM and INT end it in order, HUP reloads the models."""

    def __init__(self, services: Services, listener: socket.socket) -> None:
        self._services, self._listener = services, listener
        self._protocol = bounded_protocol(services.settings.limits)
        config = uvicorn.Config(
            build_application(services),
            http=self._protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=math.ceil(max(services.settings.drain_seconds, _LAST_SECONDS)),
        )
        super().__init__(config)
        self._exit_code = 0
        self._opening = set[asyncio.Task[None]]()
        self._reloading: asyncio.Task[None] | None = None

    async def run(self) -> int:  # type: ignore[override]
        """Serve until a signal comes; return the exit code."""
        loop = asyncio.get_running_loop()
        for number, action in self._actions():
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, action)
        await self.serve(sockets=[self._listener])
        return self._exit_code

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `run`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Print the address of the server, once it answers."""
        await super().startup([])
        self._listener.setblocking(False)
        self._listen()
        host, port = self._listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        models = ", ".join(f"{model.name} ({model.kind})" for model in self._services.catalog.models)
        say("serving {models} at http://{host}:{port}", models, shown, port)
        _notify("READY=1")
        self._services.workers.warm_up()
        self._collect_garbage()

    def _collect_garbage(self) -> None:
        """Collect all garbage where there were many new objects, now and every few seconds."""
        if gc.get_count()[2] > _YOUNG_OBJECTS[1]:
            gc.collect()
        asyncio.get_running_loop().call_later(_COLLECTION_SECONDS, self._collect_garbage)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the port, and end in order."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        await super().shutdown([])

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept whoever waits: uvloop takes one in each turn, and under attack a turn is long."""
        loop = asyncio.get_running_loop()
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                accepted, _ = self._listener.accept()
                opening = loop.create_task(self._open(accepted))
                self._opening.add(opening)
                opening.add_done_callback(self._opening.discard)
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            # no more files may be open: wait until some are closed
            loop.remove_reader(self._listener)
            loop.call_later(_NO_FILES_SECONDS, self._listen)

    async def _open(self, accepted: socket.socket) -> None:
        """Hand a connection to the protocol; one whose client has left is closed."""
        protocol = partial(self._protocol, self.config, self.server_state, self.lifespan.state)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted)
        except OSError:
            accepted.close()

    def _actions(self) -> Iterator[tuple[int, Callable[[], None]]]:
        yield signal.SIGTERM, lambda: self._end(0)
        yield signal.SIGINT, lambda: self._end(128 + signal.SIGINT)
        yield signal.SIGHUP, self._reload

    def _end(self, exit_code: int) -> None:
        if self._services.is_draining:
            self.force_exit = self.should_exit = True
            self._services.end()
            self._exit_after(_LAST_SECONDS)
            return
        self._services.is_draining, self._exit_code = True, exit_code
        say("stopping after the requests that were accepted; signal once more to stop at once")
        _notify("STOPPING=1")
        loop, drain = asyncio.get_running_loop(), self._services.settings.drain_seconds
        loop.call_later(_GRACE_SECONDS, setattr, self, "should_exit", True)
        loop.call_later(_GIVING_UP * drain, self._services.end)
        loop.call_later(max(_CUTTING_OFF * drain, _GIVING_UP * drain + _MIN_BETWEEN), self._cut_off)
        self._exit_after(max(_KILLED * drain, _LAST_SECONDS))

    def _exit_after(self, seconds: float) -> None:
        """End this process and its workers after so many seconds, unless it has ended by then."""

        def end() -> None:
            say("stopped although some threads were still working")
            self._services.workers.kill()
            os._exit(self._exit_code)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()

    def _cut_off(self) -> None:
        """End the answers that still are not complete, and then the connections of those who do not read them."""
        for connection in list(self.server_state.connections):
            connection.cut_off()  # type: ignore[union-attr]
        loop = asyncio.get_running_loop()
        loop.call_later(0.02 * self._services.settings.drain_seconds, self._close_all)
        # a closed connection is known to its request from the next turn of the loop on
        for task in list(self.server_state.tasks):
            loop.call_later(_NEXT_TURN, task.cancel)

    def _close_all(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def _reload(self) -> None:
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._load_anew())

    async def _load_anew(self) -> None:
        say("reloading the models")
        catalog = self._services.catalog
        count = await asyncio.to_thread(catalog.reload, say)
        self._services.engine.queue.forget_rates()
        say("reloaded {count} of {total} models", count, len(catalog.models))


def _raise_file_limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _notify(state: str) -> None:
    """Notify systemd of a state, where it listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address and hasattr(socket, "AF_UNIX"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
