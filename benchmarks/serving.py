"""How a server of one translator bears one caller, many, too many, and those that hang up.

The callers run in this process and the server in another, on one machine: compare figures within one run only. A
batched server and one that computes one text after another (--batch-tokens 1) are measured in turn, round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders.http_callers import Answer, Caller, Server, milliseconds, started
from benchmarks.harness import note, parser, provenance

Measured = dict[str, Any]
CALLERS = (1, 8, 64)
PAIR = {"source": "en", "target": "fr"}


def fields(text: str) -> Measured:
    return {"q": text, **PAIR}


async def closed_loop(port: int, callers: int, texts: Sequence[str], seconds: float) -> list[Answer]:
    """Callers that ask again as soon as they are answered."""
    end = time.perf_counter() + seconds
    answers: list[Answer] = []

    async def call(first: int) -> None:
        caller, number = Caller(port), first
        while time.perf_counter() < end:
            answers.append(await caller.post("/translate", fields(texts[number % len(texts)])))
            number += callers
        caller.close()

    await asyncio.gather(*(call(number) for number in range(callers)))
    return answers


async def open_loop(port: int, rate: float, texts: Sequence[str], seconds: float) -> list[Answer]:
    """Requests that come at random times, `rate` a second, whatever the server does."""
    idle = [Caller(port) for _ in range(256)]
    chance, answers = random.Random(1), list[Answer]()

    async def ask(text: str) -> None:
        caller = idle.pop() if idle else Caller(port)
        answers.append(await caller.post("/translate", fields(text)))
        idle.append(caller)

    waiting, start, due, number = set[asyncio.Task[None]](), time.perf_counter(), 0.0, 0
    while (now := time.perf_counter() - start) < seconds:
        while due <= now:
            task = asyncio.ensure_future(ask(texts[number % len(texts)]))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            due, number = due + chance.expovariate(rate), number + 1
        await asyncio.sleep(max(0.0, min(due - now, 0.01)))
    await asyncio.gather(*waiting)
    return answers


def measure_callers(run: Path, texts: Sequence[str], seconds: float, rounds: int) -> Measured:
    """Sentences a second, batched and one after another, in turn."""
    options = [str(run), "--precision", "int8", "--beam", "1", "--threads", "1", "--max-wait", "60"]
    rows: Measured = {}
    with started(*options) as batched, started(*options, "--batch-tokens", "1") as alone:
        for callers in CALLERS:
            found: dict[str, list[Answer]] = {"batched": [], "one_at_a_time": []}
            spent = dict.fromkeys(found, 0.0)
            for _ in range(rounds):
                for name, server in (("batched", batched), ("one_at_a_time", alone)):
                    before = server.processor_seconds()
                    found[name] += asyncio.run(closed_loop(server.port, callers, texts, seconds))
                    spent[name] += server.processor_seconds() - before
            rows[str(callers)] = {
                name: speed(answers, seconds * rounds) | {"processor_ms": 1000 * spent[name] / len(answers)}
                for name, answers in found.items()
            }
            ratio = rows[str(callers)]["batched"]["per_second"] / rows[str(callers)]["one_at_a_time"]["per_second"]
            rows[str(callers)]["times_as_fast"] = ratio
            note(f"{callers} callers: {json.dumps(rows[str(callers)])}")
        most = rows[str(CALLERS[-1])]["batched"]["per_second"]
        answers = asyncio.run(open_loop(batched.port, 0.7 * most, texts, seconds * rounds))
        rows["at_70_percent"] = speed(answers, seconds * rounds) | {"asked_per_second": 0.7 * most}
    return rows


def speed(answers: list[Answer], seconds: float) -> Measured:
    assert {answer.status for answer in answers} == {200}, Counter(answer.status for answer in answers)
    return {"per_second": len(answers) / seconds, **milliseconds(answers)}


def overload(server: Server, texts: Sequence[str], seconds: float) -> Measured:
    """Callers that each bring a page, far more than can be translated."""
    page = "\n".join(texts[:40])

    async def all_calls() -> list[Answer]:
        return await closed_loop(server.port, 200, [page], seconds)

    answers = asyncio.run(all_calls())
    whole = [answer for answer in answers if answer.status == 200]
    lines = {json.loads(answer.body)["translatedText"].count("\n") for answer in whole}
    refused = [answer for answer in answers if answer.status in (429, 503)]
    return {
        "statuses": {str(status): count for status, count in Counter(answer.status for answer in answers).items()},
        "refused_without_retry_after": sum(not answer.retry_after for answer in refused),
        "answers_have_all_lines": lines == {page.count("\n")},
        "offered_times_answered": len(answers) / max(1, len(whole)),
        "memory_mib": server.memory(),
        "most_memory_mib": server.memory("VmHWM"),
    }


async def slow_connections(server: Server, texts: Sequence[str]) -> Measured:
    """500 connections that never finish their head, and one caller beside them."""
    opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(500)]
    for _, writer in opened:
        writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\n")
    answers = await closed_loop(server.port, 1, texts, 3.0)
    start, closed = time.perf_counter(), 0
    for reader, writer in opened:
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(max(0.1, 25 - (time.perf_counter() - start))):
                closed += await reader.read() == b""
        writer.close()
    return {
        "statuses_beside": {str(key): count for key, count in Counter(each.status for each in answers).items()},
        "closed_by_server": closed,
        "memory_mib": server.memory(),
    }


async def hang_ups(server: Server, texts: Sequence[str]) -> Measured:
    """1,000 clients that ask for a page and leave at once; then one that waits."""
    page = json.dumps(fields("\n".join(texts[:40]))).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    for _ in range(1000):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + page)
        await writer.drain()
        writer.transport.abort()
    start = time.perf_counter()
    while (answer := await Caller(server.port).post("/translate", fields(texts[0]))).status == 429:
        await asyncio.sleep(0.05)
    return {
        "status_after": answer.status,
        "seconds_until_answered": time.perf_counter() - start,
        "memory_mib": server.memory(),
    }


async def ended_under_load(server: Server, texts: Sequence[str]) -> Measured:
    """64 callers while the server is told to end: what was sent before must be answered."""
    calls = asyncio.ensure_future(closed_loop(server.port, 64, texts, 2.5))
    await asyncio.sleep(1.5)
    told = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    answers = await calls
    code = await asyncio.to_thread(server.process.wait, 60)
    before = [answer for answer in answers if answer.sent_at < told]
    return {
        "answered_before": sum(answer.status == 200 for answer in before),
        "in_flight_when_told": sum(answer.sent_at + answer.seconds > told for answer in before),
        "lost": sum(answer.status == 0 for answer in before),
        "refused": sum(answer.status in (429, 503) for answer in before),
        "exit_code": code,
        "seconds_to_end": time.perf_counter() - told,
    }


def measure_bad_times(run: Path, texts: Sequence[str], seconds: float) -> Measured:
    """Too much, too slow, gone, and ended."""
    options = [str(run), "--precision", "int8", "--beam", "1", "--threads", "1", "--max-wait", "1"]
    rows: Measured = {}
    with started(*options) as server:
        rows["idle_memory_mib"] = server.memory()
        rows["ready_seconds"] = server.ready_seconds
        asyncio.run(closed_loop(server.port, 8, texts, 1.0))
        rows["memory_after_work_mib"] = server.memory()
        rows["overload"] = overload(server, texts, seconds)
        scenarios: list[Callable[[Server, Sequence[str]], Awaitable[Measured]]] = [slow_connections, hang_ups]
        for scenario in scenarios:
            rows[scenario.__name__] = asyncio.run(scenario(server, texts))  # type: ignore[arg-type]
        rows["ended_under_load"] = asyncio.run(ended_under_load(server, texts))
    with started(*options) as server:
        server.process.kill()
        server.process.wait()
        with started(*options, port=server.port) as again:
            rows["ready_again_seconds"] = again.ready_seconds
    return rows


def table(found: Measured) -> str:
    lines = ["| callers | batched: a second, p50, p99 ms | one at a time | times as fast |", "|---|---|---|---|"]
    for callers in map(str, CALLERS):
        row = found["callers"][callers]
        shown = [
            f"{row[name]['per_second']:,.0f}, {row[name]['p50_ms']:.1f}, {row[name]['p99_ms']:.1f}"
            for name in ("batched", "one_at_a_time")
        ]
        lines.append(f"| {callers} | {shown[0]} | {shown[1]} | {row['times_as_fast']:.2f} |")
    return "\n".join(lines)


def read_options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="Run directory of a translator.")
    options.add_argument("texts", type=Path, help="Sentences, one a line.")
    options.add_argument("--seconds", type=float, default=4.0, help="Of each round.")
    options.add_argument("--rounds", type=int, default=3, help="In turn, batched and one at a time.")
    options.add_argument("--overload-seconds", type=float, default=60.0, help="Of far too many callers.")
    return options.parse_args()


def main() -> None:
    options = read_options()
    texts = [line for line in options.texts.read_text(encoding="utf-8").split("\n") if line.strip()]
    found = provenance("one server bears many callers") | {
        "callers": measure_callers(options.run, texts, options.seconds, options.rounds),
        "bad_times": measure_bad_times(options.run, texts, options.overload_seconds),
    }
    print(json.dumps(found, indent=1))
    note(table(found))


if __name__ == "__main__":
    main()
