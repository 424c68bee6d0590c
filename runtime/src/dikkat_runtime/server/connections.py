"""Close connections that send nothing, or too slowly, and those beyond a number."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from typing import Any

HEAD_BYTES = 65_536
"""Most bytes of the lines before a body."""


class BoundedProtocol(asyncio.Protocol):
    """An addition to a protocol of uvicorn: the request line and headers must come in time, and end."""

    most_connections: int
    head_seconds: float
    loop: asyncio.AbstractEventLoop
    transport: Any
    connections: set[Any]
    cycle: Any
    """The request that is being answered, None before the first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock of a connection, unless there are too many."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        if len(self.connections) > self.most_connections:
            self.transport.close()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock of a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; a request that has begun must complete its head in time."""
        if self._head_timer is None and self._is_idle():
            self._wait_for_head()
        super().data_received(data)
        if not self._is_idle():
            self._stop_waiting()
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self.transport.close()

    def _is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._close_slow)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_slow(self) -> None:
        self._head_timer = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()


def bounded_protocol(most_connections: int, head_seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol for `most_connections` connections, each with `head_seconds` for its first lines.

    It uses httptools where that is installed, else h11.
    """
    has_httptools = importlib.util.find_spec("httptools") is not None
    module, name = ("httptools_impl", "HttpToolsProtocol") if has_httptools else ("h11_impl", "H11Protocol")
    base: type[Any] = getattr(importlib.import_module(f"uvicorn.protocols.http.{module}"), name)
    bounds = {"most_connections": most_connections, "head_seconds": head_seconds}
    return type("Protocol", (BoundedProtocol, base), bounds)
