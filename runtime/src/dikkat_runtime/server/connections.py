"""Bound what a connection may send around its bodies, how long it may take, and what all of them hold together."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dikkat_runtime.server.budget import Budget
from dikkat_runtime.server.settings import Limits

HEAD_BYTES = 65_536
"""Most bytes of the lines before a body."""
MAX_HEADERS = 128
SHORT_HEAD = 4096
"""Bytes of a head that count in no budget: the number of connections bounds them."""
ALL_HEADS = 16 << 20
"""Bytes of all heads together beyond `SHORT_HEAD` each, until their requests are answered."""
AROUND_BODY = 16_384
"""Bytes of the lines around the chunks of a body and after it, besides half as many as the body has."""
PIPELINED_BYTES = 16_384
"""Bytes of further requests that a connection may send before it is answered."""
MAX_PIPELINED = 16
_PIECE = 4096
"""Bytes that are parsed before the bounds are checked again."""


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of uvicorn over httptools, within bounds that need no key to hold."""

    limits: Limits
    heads: Budget
    """What the heads of all connections hold together."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of a connection, unless there are too many."""
        super().connection_made(transport)
        self._is_in_head = self._is_in_body = self._is_refused = False
        self._line_bytes = self._body_bytes = self._new_body_bytes = self._bare_bytes = self._pipelined_bytes = 0
        """Bytes since a head or a body began: of lines, of the body itself, and of lines since its last byte."""
        self._held = 0
        """Bytes of heads in the budget of all."""
        self._answered: Any = None
        """The request that is being answered; further ones wait in the pipeline."""
        self._head_timer: asyncio.TimerHandle | None = None
        if len(self.connections) > self.limits.connections:
            self.transport.close()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock of a connection, and tell its request that the client is gone."""
        self._stop_waiting()
        self._give_back_head()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data piece by piece; a request that has begun must complete its head in time."""
        if self._head_timer is None and self._is_idle():
            self._wait_for_head()
        start = 0
        while start < len(data) and not self.transport.is_closing():
            size = min(_PIECE, HEAD_BYTES - self._line_bytes) if self._is_in_head else _PIECE
            self._read_piece(data[start : start + size])
            start += size
        if not self._is_idle():
            self._stop_waiting()

    def cut_off(self) -> None:
        """Close the connection where an answer was begun that does not come to its end."""
        if self._answered is not None and self._answered.response_started:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._line_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; the lines after a body are none."""
        if not self._is_in_head:
            return
        if len(self.headers) >= MAX_HEADERS:
            self._is_refused = True
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request, and its body."""
        self._is_in_head, self._is_in_body = False, True
        self._line_bytes = self._body_bytes = self._bare_bytes = 0
        if not self._is_refused:
            is_next = self._is_idle()
            super().on_headers_complete()
            if is_next:
                self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body, or forget it where its request is answered."""
        self._body_bytes += len(body)
        self._new_body_bytes += len(body)
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body, self._line_bytes = False, 0
        if not self._is_refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Free the head of the answered request, and begin the next one."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        else:
            self._give_back_head()
        self._pipelined_bytes = 0
        super().on_response_complete()

    def _read_piece(self, piece: bytes) -> None:
        self._new_body_bytes = 0
        super().data_received(piece)
        if self.transport.is_closing():
            return
        self._line_bytes += len(piece) - self._new_body_bytes
        self._bare_bytes = 0 if self._new_body_bytes else self._bare_bytes + len(piece)
        most_besides = 0 if self._bare_bytes > AROUND_BODY else self._body_bytes // 2
        if self._is_refused or (self._is_in_head and self._line_bytes >= HEAD_BYTES):
            self._refuse(431, f"the lines before a body have over {HEAD_BYTES:,} bytes or {MAX_HEADERS} headers")
        elif self._is_in_head and not self._holds_head():
            self._refuse(503, "too many long heads at once; send it again later")
        elif self._is_in_body and self._line_bytes > AROUND_BODY + most_besides:
            self._refuse(400, "the lines around the chunks of the body are too long")
        elif self._is_in_body and self._is_idle() and self._body_bytes > self.limits.upload_bytes:
            # so much of a body is read and forgotten, so that its sender reads why it was refused
            self.transport.close()
        elif self.pipeline or (self._is_in_head and not self._is_idle()):
            self._pipelined_bytes += len(piece)
            if self._pipelined_bytes > PIPELINED_BYTES or len(self.pipeline) > MAX_PIPELINED:
                self.transport.close()

    def _holds_head(self) -> bool:
        """Count a head in the budget of all, and return whether there is enough left."""
        size = max(0, self._line_bytes - SHORT_HEAD) - self._held
        if size > 0 and not self.heads.has(size):
            return False
        if size > 0:
            self._held += size
            self.heads.used += size
        return True

    def _give_back_head(self) -> None:
        self.heads.used -= self._held
        self._held = 0

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error where nothing is being answered, and close the connection."""
        if self._is_idle():
            body = json.dumps({"error": message}).encode()
            later = b"retry-after: 2\r\n" if status == 503 else b""
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + later + b"\r\n" + body)
        self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._close_slow)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_slow(self) -> None:
        self._head_timer = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()


def bounded_protocol(limits: Limits, all_heads: int = ALL_HEADS) -> type[BoundedProtocol]:
    """Return the protocol of a server, all of whose connections share these bounds."""
    return type("Protocol", (BoundedProtocol,), {"limits": limits, "heads": Budget(all_heads)})
