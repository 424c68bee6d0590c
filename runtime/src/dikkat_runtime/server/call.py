"""One request while it is answered: its fields, its sender, and its calls of the engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request

from dikkat_runtime.server.access import Access
from dikkat_runtime.server.bodies import header
from dikkat_runtime.server.budget import Budget, Share
from dikkat_runtime.server.catalog import Catalog
from dikkat_runtime.server.document_store import DocumentStore
from dikkat_runtime.server.engine_thread import EngineThread
from dikkat_runtime.server.fields import Fields
from dikkat_runtime.server.glossaries import GlossaryStore
from dikkat_runtime.server.keys import Key
from dikkat_runtime.server.metrics import Metrics
from dikkat_runtime.server.models import Task
from dikkat_runtime.server.request_error import ClientGone, RequestError
from dikkat_runtime.server.settings import ServeSettings
from dikkat_runtime.server.work import Ticket
from dikkat_runtime.server.workers import Turns, WorkerPool

_PATIENCE = 0.05
"""Seconds after which the server checks whether the client is still connected."""
_STEPS = 2


class Services:
    """The parts of a server that all requests share."""

    def __init__(self, settings: ServeSettings, catalog: Catalog) -> None:
        """Raises as `Access`."""
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
        """The models that are served."""
        return self.services.catalog

    @property
    def owner(self) -> str:
        """The owner of the glossaries that a request may use."""
        return self.key.name if self.key else ""

    def count_characters(self, texts: Sequence[str]) -> None:
        """Count the characters sent. Raises `RequestError` where the key may not send so many."""
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
        while (
            self.is_detached
            and not self.services.is_over
            and queue.estimated_seconds > self.services.settings.limits.wait_seconds
        ):
            await asyncio.sleep(0.2)
        if self.services.is_over or self.services.engine.is_closed:
            # a document that is still being read must not wait for an item that nobody computes
            raise end_of_server()
        self.check_queue()
        ticket = Ticket(len(items))
        texts = [item if isinstance(item, str) else "\n".join(item) for item in items]
        queue.put(task, ticket, items, task.model.estimate_tokens(texts))
        try:
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
