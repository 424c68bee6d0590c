"""Connections within bounds that hold before any key is checked: of time, of lines, and of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from dikkat_runtime.server.connections import (
    AROUND_BODY,
    HEAD_BYTES,
    MAX_HEADERS,
    PIPELINED_BYTES,
    SHORT_HEAD,
    BoundedProtocol,
    bounded_protocol,
)
from dikkat_runtime.server.settings import Limits

POST = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
MAX_DISCARDED = 100_000


class Task:
    """The task of a request that is never run."""

    def add_done_callback(self, done: Any) -> None:
        pass


class Loop:
    """A clock that is moved by hand, and a list of the requests that were begun."""

    def __init__(self) -> None:
        self.timers: list[Any] = []
        self.requests: list[Any] = []

    def call_later(self, seconds: float, action: Any) -> Any:
        timer: Any = SimpleNamespace(seconds=seconds, action=action, cancel=lambda: self.timers.remove(timer))
        self.timers.append(timer)
        return timer

    def create_task(self, request: Any) -> Any:
        request.close()
        self.requests.append(request)
        return Task()


class Transport:
    """A connection that remembers what was written to it."""

    def __init__(self) -> None:
        self.written, self.is_closed = b"", False

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


Connect = Callable[[], Any]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """A function that opens a connection of one server, which takes two of them and 10,000 bytes of long heads."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError

    config = Config(application, ws="none")
    config.load()
    state, loop = ServerState(), Loop()
    protocol_class = bounded_protocol(Limits(connections=2, head_seconds=3.0, upload_bytes=MAX_DISCARDED), HEAD_BYTES)

    def make() -> Any:
        protocol = protocol_class(config, state, {}, loop)  # type: ignore[arg-type]
        protocol.connection_made(Transport())  # type: ignore[arg-type]
        return protocol

    asyncio.set_event_loop(asyncio.new_event_loop())
    yield make
    asyncio.get_event_loop_policy().get_event_loop().close()
    asyncio.set_event_loop(None)


def answer(protocol: BoundedProtocol) -> None:
    """End the answer to the present request."""
    protocol.cycle.response_complete = True
    protocol.on_response_complete()


def head_of(size: int) -> bytes:
    """Return a head of so many bytes."""
    start, end = b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"
    return start + b"a" * (size - len(start) - len(end)) + end


def test_a_head_that_does_not_come_in_time_ends_the_connection(connect: Connect) -> None:
    slow = connect()
    slow.data_received(b"POST / HTTP/1.1\r\n")
    (timer,) = slow.loop.timers
    assert timer.seconds == 3.0
    timer.action()
    assert slow.transport.is_closed


def test_an_answer_may_take_longer_and_the_next_head_has_its_own_time(connect: Connect) -> None:
    quick = connect()
    quick.data_received(b"GET / HTTP/1.1\r\n\r\n")
    assert quick.loop.timers == []
    answer(quick)
    quick.data_received(b"GET ")
    assert [timer.seconds for timer in quick.loop.timers] == [3.0]
    assert not quick.transport.is_closed


@pytest.mark.parametrize("packet", [1 << 20, 1000], ids=["one packet", "many"])
def test_a_head_may_have_so_many_bytes_and_no_more(connect: Connect, packet: int) -> None:
    for size, status in ((HEAD_BYTES, b""), (HEAD_BYTES + 1, b"431"), (100_000, b"431")):
        connection, head = connect(), head_of(size)
        for start in range(0, size, packet):
            connection.data_received(head[start : start + packet])
        assert connection.transport.written[9:12] == status
        assert connection.transport.is_closed is (status != b"")
        assert len(connection.loop.requests) == 1
        connection.connection_lost(None)


def test_a_head_without_end_ends_the_connection(connect: Connect) -> None:
    endless = connect()
    endless.data_received(b"GET /" + b"a" * HEAD_BYTES)
    assert endless.transport.is_closed


def test_a_head_has_a_bounded_number_of_headers(connect: Connect) -> None:
    for count, status in ((MAX_HEADERS, b""), (MAX_HEADERS + 1, b"431")):
        connection = connect()
        connection.data_received(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * count + b"\r\n")
        assert connection.transport.written[9:12] == status
        assert len(connection.loop.requests) == 1
        connection.connection_lost(None)


def test_all_long_heads_together_are_bounded_and_freed_with_their_answers(connect: Connect) -> None:
    first, second = connect(), connect()
    first.data_received(head_of(HEAD_BYTES)[:-1])
    second.data_received(head_of(SHORT_HEAD + 5000)[:-1])
    assert second.transport.written.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 2" in second.transport.written
    second.connection_lost(None)
    short = connect()
    short.data_received(head_of(SHORT_HEAD))
    assert short.transport.written == b""
    short.connection_lost(None)
    first.data_received(b"\n")
    assert first.heads.used > HEAD_BYTES - 2 * SHORT_HEAD
    answer(first)
    assert first.heads.used == 0


@pytest.mark.parametrize(
    "lines",
    [
        b"5;" + b"a" * (AROUND_BODY + 4096),
        b"5\r\nhello\r\n0\r\nX: " + b"a" * (AROUND_BODY + 4096),
        b"5\r\nhello\r\n0\r\n" + b"X: a\r\n" * 20_000,
        b"1;" + b"a" * 20 + b"\r\nx\r\n" + b"1\r\nx\r\n" * 40_000,
    ],
    ids=["extension", "trailer", "trailers", "chunks of one byte"],
)
def test_lines_around_a_body_are_bounded_and_not_kept(connect: Connect, lines: bytes) -> None:
    connection = connect()
    for start in range(0, len(POST + lines), 10_000):
        connection.data_received((POST + lines)[start : start + 10_000])
    assert connection.transport.is_closed
    assert len(connection.headers) == 1


def test_trailers_after_a_large_body_are_bounded_too(connect: Connect) -> None:
    connection = connect()
    connection.data_received(POST + b"100000\r\n" + b"x" * 0x100000 + b"\r\n0\r\nX: " + b"a" * (AROUND_BODY + 8192))
    assert connection.transport.is_closed


def test_a_body_in_chunks_of_usual_size_is_read_whole(connect: Connect) -> None:
    connection = connect()
    connection.data_received(POST + b"20\r\n" + b"x" * 32 + b"\r\n")
    for _ in range(40_000):
        connection.data_received(b"20\r\n" + b"x" * 32 + b"\r\n")
    connection.data_received(b"0\r\nX: a\r\n\r\n")
    assert not connection.transport.is_closed
    assert len(connection.cycle.body) == 32 * 40_001
    assert not connection.cycle.more_body


def test_the_rest_of_a_refused_body_is_read_and_forgotten(connect: Connect) -> None:
    connection = connect()
    connection.data_received(POST)
    answer(connection)
    connection.data_received(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
    assert not connection.transport.is_closed
    assert not connection.cycle.body
    connection.data_received(b"f0000\r\n" + b"x" * MAX_DISCARDED)
    assert connection.transport.is_closed


def test_requests_ahead_of_their_answers_are_bounded(connect: Connect) -> None:
    get = b"GET / HTTP/1.1\r\n\r\n"
    patient = connect()
    patient.data_received(get * 3)
    assert not patient.transport.is_closed
    patient.connection_lost(None)
    assert patient._answered.disconnected
    for data in (get * 2000, get + b"POST / HTTP/1.1\r\nContent-Length: 900000\r\n\r\n" + b"x" * 2 * PIPELINED_BYTES):
        hasty = connect()
        hasty.data_received(data)
        assert hasty.transport.is_closed
        assert len(hasty.pipeline) < 300
        hasty.connection_lost(None)


def test_no_private_method_of_uvicorn_is_replaced() -> None:
    """`_start_asgi_task` came with 0.45, and would never have been called in the versions before that are allowed."""
    own = {name for name in vars(BoundedProtocol) if name.startswith("_") and not name.startswith("__")}
    assert not own & set(dir(HttpToolsProtocol))


def test_one_connection_too_many_is_closed_at_once(connect: Connect) -> None:
    assert [connect().transport.is_closed for _ in range(3)] == [False, False, True]
