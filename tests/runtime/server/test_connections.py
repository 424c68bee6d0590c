"""Connections that never finish the head of a request are closed, and so are those beyond a number."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dikkat_runtime.server.connections import HEAD_BYTES, BoundedProtocol, bounded_protocol


class Loop:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.timers: list[Any] = []

    def call_later(self, seconds: float, action: Any) -> Any:
        timer: Any = SimpleNamespace(seconds=seconds, action=action, cancel=lambda: self.timers.remove(timer))
        self.timers.append(timer)
        return timer


class Http(asyncio.Protocol):
    """A head ends with two line breaks; then a request is being answered until `answer`."""

    connections: set[Any]
    cycle: Any
    loop: Any

    def connection_made(self, transport: Any) -> None:
        self.transport, self.cycle, self.loop = transport, None, Loop()
        self.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if b"\n\n" in data:
            self.cycle = SimpleNamespace(response_complete=False)


class Bounded(BoundedProtocol, Http):
    most_connections, head_seconds = 2, 3.0


@pytest.fixture
def connect() -> Any:
    Http.connections = set()

    def make() -> Any:
        protocol: Any = Bounded()
        transport = SimpleNamespace(is_closed=False)
        transport.close = lambda: setattr(transport, "is_closed", True)
        transport.is_closing = lambda: transport.is_closed
        protocol.connection_made(transport)
        return protocol

    return make


def test_a_head_that_does_not_come_in_time_ends_the_connection(connect: Any) -> None:
    slow = connect()
    slow.data_received(b"POST / HTTP/1.1\n")
    (timer,) = slow.loop.timers
    assert timer.seconds == 3.0
    timer.action()
    assert slow.transport.is_closed


def test_an_answer_may_take_longer_and_the_next_head_has_its_own_time(connect: Any) -> None:
    quick = connect()
    quick.data_received(b"GET / HTTP/1.1\n\n")
    assert quick.loop.timers == []
    quick.cycle.response_complete = True
    quick.data_received(b"GET ")
    assert len(quick.loop.timers) == 1
    assert not quick.transport.is_closed


def test_a_head_without_end_ends_the_connection(connect: Any) -> None:
    endless = connect()
    endless.data_received(b"a" * HEAD_BYTES)
    assert not endless.transport.is_closed
    endless.data_received(b"a")
    assert endless.transport.is_closed


def test_one_connection_too_many_is_closed_at_once(connect: Any) -> None:
    assert [connect().transport.is_closed for _ in range(3)] == [False, False, True]


def test_the_protocol_is_one_of_uvicorn() -> None:
    assert hasattr(bounded_protocol(5, 3.0), "on_response_complete")
