"""One request while it is answered: its fields, its sender, and its calls of the engine."""

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any
from urllib.parse import SplitResult, urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request

from dikkat_runtime.server.bodies import header
from dikkat_runtime.server.budget import Budget, Share
from dikkat_runtime.server.document_store import DocumentStore
from dikkat_runtime.server.fields import Fields
from dikkat_runtime.server.glossaries import GlossaryStore
from dikkat_runtime.server.keys import Key, find_key, read_keys
from dikkat_runtime.server.models import Catalog, Task
from dikkat_runtime.server.request_error import ClientGone, RequestError
from dikkat_runtime.server.segment_queue import AnswerStream, Batch, Segment, SegmentQueue, StreamTable, Ticket
from dikkat_runtime.server.settings import LOOPBACK, Limits, ServeSettings
from dikkat_runtime.server.workers import Turns, WorkerPool

KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
KEY_FIELDS = ("api_key", "apiKey", "auth_key", "key")
_MAX_CHECKED = 64
_SCHEMES = ("bearer", "deepl-auth-key", "token")


class Access:
    """The rules of access of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        self.keys = read_keys(settings.keys) if settings.keys else []
        self._hosts = {*LOOPBACK, settings.host.lower(), socket.gethostname().lower()}
        self._hosts |= {host.lower() for host in settings.allowed_hosts}
        self._checked = set[str]()
        """Hosts as they were sent, found to be ours before."""
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}

    @property
    def needs_key(self) -> bool:
        """True if a key must be given."""
        return bool(self.keys)

    def check_host(self, host: str) -> None:
        """Raise `RequestError` for a name that is not ours: a page elsewhere may have pointed it at this machine.

        Where a key is needed, such a page has none, so that any name will do.
        """
        if host in self._checked or self.needs_key:
            return
        name = (_parts(f"//{host}").hostname or "").lower()
        if name not in self._hosts and not _is_address(name):
            raise RequestError("forbidden", "this host name is not the server's; start it with --allow-host NAME")
        if len(self._checked) < _MAX_CHECKED:
            self._checked.add(host)

    def check_origin(self, origin: str, host: str) -> None:
        """Raise `RequestError` for a request that a page of another origin makes."""
        if _parts(origin).netloc.lower() != host.lower() and not {"*", origin.lower()} & self._origins:
            raise RequestError(
                "forbidden", "pages of this origin may not ask; start the server with --allow-origin URL"
            )

    def key_before_body(self, request: Request, query: Mapping[str, object]) -> Key | None:
        """Return the key in the headers or the query of a request, None where there is none.

        Raises `RequestError` for one that is not known.
        """
        if not self.needs_key:
            return None
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() in _SCHEMES and credentials.strip():
            return self._known(credentials.strip())
        named = next((key for name in KEY_HEADERS if (key := request.headers.get(name))), None)
        return self._known(named) if named else self._key_among(query)

    def key_in_body(self, values: Mapping[str, object]) -> Key:
        """Return the key among the fields of a body. Raises `RequestError`."""
        key = self._key_among(values)
        if key is None:
            raise RequestError("unauthorized", "an API key is needed")
        return key

    def _key_among(self, values: Mapping[str, object]) -> Key | None:
        presented = next((key for name in KEY_FIELDS if isinstance(key := values.get(name), str) and key), None)
        return self._known(presented) if presented else None

    def _known(self, presented: str) -> Key:
        key = find_key(self.keys, presented)
        if key is None:
            raise RequestError("unauthorized", "the API key is not known")
        return key


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL, all empty where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_TOKENS = (8, 32, 128, 512, 2048, 8192, 32768)


class Metrics:
    """Counters of one server; safe to use from several threads."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter("dikkat_requests", "Requests answered.", ("route", "status"), registry=own)
        """By a path of the server's own list, and the status of the answer."""
        self.seconds = Histogram(
            "dikkat_request_seconds", "From the request to its answer.", ("route",), buckets=_SECONDS, registry=own
        )
        self._queued = Histogram(
            "dikkat_queue_seconds", "Wait of the oldest segment of a batch.", buckets=_SECONDS, registry=own
        )
        self._segments = Histogram("dikkat_batch_segments", "Segments computed together.", buckets=_SIZES, registry=own)
        self._tokens = Histogram(
            "dikkat_batch_tokens", "Source tokens computed together.", buckets=_TOKENS, registry=own
        )
        self._source = Counter("dikkat_source_tokens", "Tokens read by models.", registry=own)
        self.written = Counter("dikkat_decode_tokens", "Tokens written by language models.", registry=own)
        self.rejected = Counter("dikkat_rejected", "Requests not answered as asked.", ("reason",), registry=own)
        self.clients_gone = Counter("dikkat_clients_gone", "Clients that left before their answer.", registry=own)
        self.waiting = Gauge("dikkat_queue_segments", "Segments that wait now.", registry=own)
        self.inflight = Gauge("dikkat_inflight_requests", "Requests being answered now.", registry=own)

    def batch(self, batch: Batch, start: float, seconds: float) -> None:
        """Count a computed batch, begun at `start` on the queue's clock."""
        self._segments.observe(len(batch.segments))
        self._tokens.observe(batch.tokens)
        self._source.inc(batch.tokens)
        # the wait of the oldest; the others have waited less
        self._queued.observe(start - min(segment.since for segment in batch.segments))

    def page(self) -> bytes:
        """Return all counters in the text format of Prometheus."""
        return generate_latest(self._registry)


_ENDS_WITHIN = 2.0
"""Seconds in which the last batch is computed; the thread ends with the process."""


class EngineThread:
    """A thread that computes batches of segments, and between them a piece of each text that is generated."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.queue, self.streams, self._metrics = SegmentQueue(limits), StreamTable(limits), metrics
        self.is_closed = False
        """Whether nothing more is computed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        """Start to work for the present event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """Stop when no more work waits; what is computed for nobody any more is not waited for long."""
        with self.queue.changed:
            self.is_closed = True
            self.queue.changed.notify()
        self._thread.join(_ENDS_WITHIN)

    def write(self, stream: AnswerStream) -> None:
        """Add a text to generate. Raises `RequestError` where it would wait too long."""
        with self.queue.changed:
            self.streams.check()
            self.streams.waiting.append(stream)
            self.queue.changed.notify()

    def _work(self) -> None:
        while True:
            with self.queue.changed:
                batch, streams = self.queue.take(), self.streams.refresh()
                if batch is None and not streams:
                    if self.is_closed:
                        return
                    self.queue.changed.wait()
                    continue
            if batch is not None:
                self._compute(batch)
            for stream in streams:
                self._step(stream)

    def _compute(self, batch: Batch) -> None:
        start = time.monotonic()
        try:
            results = batch.run()
        except Exception as error:
            # one segment may be at fault: compute the others alone
            results = [error] if len(batch.segments) == 1 else list(map(_alone, batch.segments))
        seconds = time.monotonic() - start
        self.queue.measured(batch, seconds)
        self._metrics.batch(batch, start, seconds)
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_deliver, batch, results)

    def _step(self, stream: AnswerStream) -> None:
        start = time.monotonic()
        goes_on, tokens = stream.step()
        self.streams.measured(tokens, time.monotonic() - start)
        self._metrics.written.inc(tokens)
        if not goes_on:
            stream.is_cancelled = True


def _alone(segment: Segment) -> Any:
    try:
        return Batch([segment]).run()[0]
    except Exception as error:
        return error


def _deliver(batch: Batch, results: list[Any]) -> None:
    for segment, result in zip(batch.segments, results, strict=True):
        segment.ticket.deliver(segment.index, result)


_PATIENCE = 0.05
"""Seconds after which the server checks whether the client is still connected."""
_STEPS = 2
_AT_ONCE = 500
"""Items that are put into the queue at once."""


class Services:
    """The parts of a server that all requests share."""

    def __init__(self, settings: ServeSettings, catalog: Catalog) -> None:
        self.settings, self.catalog = settings, catalog
        self.access, self.metrics = Access(settings), Metrics()
        self.memory, self.unkeyed = Budget(settings.limits.memory_bytes), Budget(settings.limits.unkeyed_bytes)
        self.engine = EngineThread(settings.limits, self.metrics)
        self.glossaries = GlossaryStore(settings.limits)
        self.documents = DocumentStore(settings.limits)
        self.workers = WorkerPool()
        self.document_turns, self.markup_turns = Turns(settings.limits.workers), Turns(settings.limits.workers)
        self.steps = asyncio.Semaphore(_STEPS)
        """Requests whose bodies are parsed at once."""
        self.is_draining = False
        """True from the signal to end on: what was accepted is answered, and nothing else."""
        self.is_over = False
        """True once the time to answer that is up."""
        self.waiting = set[Callable[[Exception], None]]()
        """Give up what each request waits for."""
        self.characters = 0
        """Sent by anybody since the start."""

    def end(self) -> None:
        """Give up all that requests wait for."""
        self.is_over = True
        for give_up in list(self.waiting):
            give_up(end_of_server())


def end_of_server() -> RequestError:
    """Return the error of what the server does not answer any more."""
    return RequestError("unavailable", "the server has ended; ask again", retry_after=1)


class Call:
    """One request with its fields, its key and its time limit."""

    def __init__(self, services: Services, request: Request, fields: Fields, key: Key | None, share: Share) -> None:
        """`share` is what the request holds of the budgets of all; it ends with the request."""
        self.share = share
        self.services, self.request, self.fields, self.key = services, request, fields, key
        self._deadline = time.monotonic() + _seconds_allowed(request, services.settings.limits.request_seconds)
        self._watch: asyncio.Task[None] | None = None
        self.is_detached = False
        """True if it goes on without the client."""

    @property
    def catalog(self) -> Catalog:
        return self.services.catalog

    @property
    def owner(self) -> str:
        """The owner of the glossaries that a request may use."""
        return self.key.name if self.key else ""

    def count_characters(self, texts: Sequence[Sized]) -> None:
        """Count the characters, or ids, sent. Raises `RequestError` where the key may not send so many."""
        self.count(sum(map(len, texts)))

    def count(self, characters: int) -> None:
        """Count so many characters. Raises as `count_characters`."""
        if self.key:
            self.key.use("characters", characters)
        self.services.characters += characters

    async def compute(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Return the result of each item, a text or texts that belong together, in order.

        Raises `RequestError` where the server is too busy or the time is up, and `ClientGone`.
        """
        if not items:
            return []
        queue = self.services.engine.queue
        while self.is_detached and queue.estimated_seconds > self.services.settings.limits.wait_seconds:
            await self.wait_for(asyncio.ensure_future(asyncio.sleep(0.2)))
        if self.services.is_over or self.services.engine.is_closed:
            # a document that is still being read must not wait for an item that nobody computes
            raise end_of_server()
        self.check_queue()
        ticket = Ticket(len(items))
        try:
            for start in range(0, len(items), _AT_ONCE):
                some = items[start : start + _AT_ONCE]
                texts = [item if isinstance(item, str) else "\n".join(map(str, item)) for item in some]
                queue.put(task, ticket, some, task.model.estimate_tokens(texts), start, len(items))
                if start + _AT_ONCE < len(items):
                    # others get their turn
                    await asyncio.sleep(0)
            return list(await self.wait_for(ticket.future))
        finally:
            queue.cancel(task, ticket)

    def check_queue(self) -> None:
        """Raise `RequestError` where the server is too busy for one who waits."""
        if not self.is_detached:
            self.services.engine.queue.check()

    async def wait_for(self, awaited: asyncio.Future[Any], watch: bool = True) -> Any:
        """Return the result of a future. Raises `RequestError` when the time is up, and with `watch` `ClientGone`."""
        loop, reasons = asyncio.get_running_loop(), list[Exception]()

        def give_up(reason: Exception) -> None:
            if not awaited.done():
                reasons.append(reason)
                awaited.cancel()

        late = RequestError("timeout", "the time for this request is up", retry_after=1)
        timers = [loop.call_later(max(0.0, self._deadline - time.monotonic()), give_up, late)]
        if watch and not self.is_detached:
            timers.append(loop.call_later(_PATIENCE, self._watch_client, give_up))
        self.services.waiting.add(give_up)
        try:
            if self.services.is_over:
                give_up(end_of_server())
            return await awaited
        except asyncio.CancelledError:
            if reasons:
                raise reasons[0] from None
            raise
        finally:
            self.services.waiting.discard(give_up)
            for timer in timers:
                timer.cancel()

    def _watch_client(self, give_up: Callable[[Exception], None]) -> None:
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._until_gone())

        def left(watch: asyncio.Task[None]) -> None:
            if not watch.cancelled():
                give_up(ClientGone())

        self._watch.add_done_callback(left)

    async def while_connected(self, work: asyncio.Future[Any]) -> None:
        """Wait for work that is done for the client alone; end it and raise `ClientGone` where that leaves."""
        watch = asyncio.ensure_future(self._until_gone())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGone
        finally:
            watch.cancel()
            work.cancel()

    def detach(self, seconds: float) -> None:
        """Continue for `seconds` without the client, and wait where the server is busy."""
        self.is_detached, self._deadline = True, time.monotonic() + seconds

    def close(self) -> None:
        """Stop watching for the client to leave."""
        if self._watch is not None:
            self._watch.cancel()

    async def _until_gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def _seconds_allowed(request: Request, most: float) -> float:
    declared = header(request, b"x-deadline-ms")
    return min(most, int(declared) / 1000) if declared.isascii() and declared.isdigit() and len(declared) < 10 else most
