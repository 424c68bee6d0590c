"""A server in bad times: far too many callers, slow ones, those that hang up, and an end under load.

`OVERLOAD_SECONDS` shortens the first of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.contenders.http_callers import Caller, Server, started
from benchmarks.serving import ended_under_load, hang_ups, overload, slow_connections
from tests.runtime.runs import SENTENCES

pytestmark = pytest.mark.nightly

SECONDS = float(os.environ.get("OVERLOAD_SECONDS", "60"))
TEXTS = [f"{sentence} {number}" for number in range(20) for sentence in SENTENCES if sentence]
GROWTH = 120
"""MiB that the server may grow by while it is overloaded."""


@pytest.fixture
def server(runs: dict[str, Path]) -> Iterator[Server]:
    with started(f"en-fr={runs['mt']}", "--beam", "1", "--threads", "1", "--max-wait", "0.5") as server:
        yield server


def test_too_many_callers_are_answered_once_or_refused_with_a_time_to_retry(server: Server) -> None:
    idle = server.memory()
    result = overload(server, TEXTS, SECONDS)
    assert set(result["statuses"]) <= {"200", "429", "503"}
    assert result["statuses"]["200"] > 0
    assert result["statuses"]["429"] > result["statuses"]["200"]
    assert result["refused_without_retry_after"] == 0
    assert result["answers_have_all_lines"]
    assert result["most_memory_mib"] < idle + GROWTH


def test_five_hundred_slow_connections_hold_up_nobody(server: Server) -> None:
    result = asyncio.run(slow_connections(server, TEXTS))
    assert set(result["statuses_beside"]) == {"200"}
    assert result["closed_by_server"] == 500


def test_the_work_of_a_thousand_that_hang_up_is_dropped(server: Server) -> None:
    idle = server.memory()
    result = asyncio.run(hang_ups(server, TEXTS))
    assert result["status_after"] == 200
    assert result["seconds_until_answered"] < 30
    assert result["memory_mib"] < idle + GROWTH


def test_nothing_that_was_accepted_is_lost_at_the_end(server: Server) -> None:
    result = asyncio.run(ended_under_load(server, TEXTS))
    assert result["answered_before"] > 0
    assert result["in_flight_when_told"] > 0
    assert (result["lost"], result["exit_code"]) == (0, 0)


def test_a_server_that_was_killed_under_load_is_back_at_once(runs: dict[str, Path]) -> None:
    options = [f"en-fr={runs['mt']}", "--beam", "1", "--threads", "1"]
    with started(*options) as server:
        server.process.kill()
        server.process.wait()
        with started(*options, port=server.port) as again:
            assert asyncio.run(_answered(again)) == 200


async def _answered(server: Server) -> int:
    answer = await Caller(server.port).post("/translate", {"q": SENTENCES[0], "source": "en", "target": "fr"})
    return answer.status
