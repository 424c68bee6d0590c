"""What a server of one translator bears: hostile requests and files side by side, and /health asked all the while.

The attackers run in this process, whoever asks /health in a second one and the server in a third, on one machine with
whatever else runs there; the load is printed. Attackers come evenly over the time, at most so many at once; callers
who mean well ask between them. At the end the server gets SIGTERM in the midst of it all.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders.hostile_clients import PAIR, REQUESTS, hostile_files, send_file
from benchmarks.contenders.http_callers import Answer, Caller, Server, percentile, started
from benchmarks.harness import Measured, note, parser, provenance

PROBE_EVERY = 0.05
"""Seconds."""
_WELL_MEANT = "Where is the dog of my sister?"


def probe(port: int, results: Connection) -> None:
    """Ask /health again and again until told to stop, and send the seconds that each answer took."""
    seconds: list[float] = []
    while not results.poll(PROBE_EVERY):
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request("GET", "/health")
            is_well = connection.getresponse().status == 200
        except OSError:
            is_well = False
        seconds.append(time.perf_counter() - start if is_well else float("inf"))
        connection.close()
    results.send(seconds)


def memory_mib(process: int) -> float:
    """MiB that a process holds, 0 where it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), "VmRSS: 0 kB")
    return int(line.split()[1]) / 1024


def workers_of(process: int) -> list[int]:
    """The processes that a server has started."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in children.split()]


@dataclass
class Attacked:
    """What was sent to a server and what came back."""

    server: Server
    rng: random.Random
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    well_meant: list[Answer] = field(default_factory=list)
    most_mib: float = 0.0
    most_workers_mib: float = 0.0
    loads: list[float] = field(default_factory=list)

    async def send_evenly(
        self, attacks: list[tuple[str, Callable[[], Awaitable[int]]]], seconds: float, most: int
    ) -> None:
        """Begin the attacks evenly over the time, at most `most` of them side by side."""
        turns, start = asyncio.Semaphore(most), time.monotonic()
        running = set[asyncio.Task[None]]()

        async def one(name: str, attack: Callable[[], Awaitable[int]]) -> None:
            try:
                status = await attack()
            except OSError:
                status = 0
            finally:
                turns.release()
            self.statuses.setdefault(name, Counter())[status] += 1

        for number, (name, attack) in enumerate(attacks):
            await asyncio.sleep(max(0.0, start + seconds * number / len(attacks) - time.monotonic()))
            await turns.acquire()
            task = asyncio.ensure_future(one(name, attack))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def mean_well(self, number: int) -> None:
        """Ask for translations one after another, a new connection after one that ended."""
        caller, count = Caller(self.server.port), 0
        while True:
            self.well_meant.append(await caller.post("/translate", {"q": f"{_WELL_MEANT} {number} {count}", **PAIR}))
            count += 1
            await asyncio.sleep(0.1)

    async def look(self) -> None:
        """Look at the memory of the server and of its workers, and at the load of the machine."""
        while True:
            process = self.server.process.pid
            self.most_mib = max(self.most_mib, memory_mib(process))
            self.most_workers_mib = max(self.most_workers_mib, sum(map(memory_mib, workers_of(process))))
            self.loads.append(os.getloadavg()[0])
            await asyncio.sleep(0.2)


async def attack(server: Server, options: argparse.Namespace) -> Measured:
    """Attack a server for a while, end it in the midst of it, and return what came of it."""
    rng = random.Random(options.seed)
    attacked, files = Attacked(server, rng), hostile_files(options.file_size)
    requests: list[tuple[str, Callable[[], Awaitable[int]]]] = []
    for number in range(options.requests):
        request = REQUESTS[number % len(REQUESTS)]
        requests.append((request.__name__, partial(request, server.port, rng)))
    uploads: list[tuple[str, Callable[[], Awaitable[int]]]] = [
        (files[number % len(files)][0], partial(send_file, server.port, rng, files[number % len(files)]))
        for number in range(options.files)
    ]
    rng.shuffle(requests)
    rng.shuffle(uploads)
    idle = memory_mib(server.process.pid)
    ours, theirs = multiprocessing.Pipe()
    prober = multiprocessing.get_context("spawn").Process(target=probe, args=(server.port, theirs), daemon=True)
    prober.start()
    friends = [asyncio.ensure_future(attacked.mean_well(number)) for number in range(options.callers)]
    looking = asyncio.ensure_future(attacked.look())
    seconds, began = 60 * options.minutes, time.monotonic()
    attacks = asyncio.gather(
        attacked.send_evenly(requests, seconds, options.at_once),
        attacked.send_evenly(uploads, seconds, options.files_at_once),
    )
    await asyncio.wait([attacks], timeout=seconds)
    ours.send("stop")
    health = await asyncio.to_thread(ours.recv)
    ended_at = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(server.process.wait, 300)
    drain = time.perf_counter() - ended_at
    attacks.cancel()
    for task in (looking, *friends):
        task.cancel()
    await asyncio.gather(attacks, looking, *friends, return_exceptions=True)
    accepted = [answer for answer in attacked.well_meant if answer.sent_at < ended_at]
    return {
        "seconds": time.monotonic() - began - drain,
        "requests": sum(sum(counts.values()) for name, counts in attacked.statuses.items() if "." not in name),
        "files": sum(sum(counts.values()) for name, counts in attacked.statuses.items() if "." in name),
        "health_asked": len(health),
        "health_p50_ms": 1000 * percentile(health, 0.5),
        "health_p99_ms": 1000 * percentile(health, 0.99),
        "health_most_ms": 1000 * max(health),
        "idle_mib": idle,
        "most_mib": attacked.most_mib,
        "most_workers_mib": attacked.most_workers_mib,
        "well_meant": {str(key): count for key, count in Counter(answer.status for answer in accepted).items()},
        "lost": sum(answer.status == 0 for answer in accepted),
        "drain_seconds": drain,
        "exit_code": code,
        "load": sum(attacked.loads) / max(1, len(attacked.loads)),
        "statuses": {
            name: {str(key): count for key, count in sorted(counts.items())}
            for name, counts in sorted(attacked.statuses.items())
        },
    }


def measure(run: str, options: argparse.Namespace) -> Measured:
    """Start a server of a run and attack it; also return the lines of its log."""
    with started(
        run, "--precision", "int8", "--beam", "1", "--threads", "1", "--drain", f"{options.drain:g}"
    ) as server:
        lines = list[str]()
        assert server.process.stderr is not None
        # a server whose log nobody reads would wait at the next line of it
        reader = threading.Thread(target=lambda: lines.extend(server.process.stderr or ()), daemon=True)
        reader.start()
        result = asyncio.run(attack(server, options))
        reader.join(10)
    return result | {"log": dict(Counter(line.strip()[:100] for line in lines).most_common(12)),
                     "tracebacks": sum("Traceback" in line for line in lines)}  # fmt: skip


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="Run directory of a translator.")
    options.add_argument("--requests", type=int, default=10_000, help="Hostile requests.")
    options.add_argument("--files", type=int, default=1000, help="Hostile files.")
    options.add_argument("--minutes", type=float, default=10.0, help="Over which they come evenly.")
    options.add_argument("--file-size", type=int, default=200_000, help="Bytes of a file.")
    options.add_argument("--at-once", type=int, default=100, help="Requests side by side.")
    options.add_argument("--files-at-once", type=int, default=12, help="Files side by side.")
    options.add_argument("--callers", type=int, default=4, help="Callers who mean well.")
    options.add_argument("--drain", type=float, default=30.0, help="Seconds that the server has to end.")
    options.add_argument("--seed", type=int, default=1, help="Of all choices.")
    return options.parse_args(arguments)


def main() -> None:
    options = read_options()
    found = provenance("one server is attacked") | measure(f"en-fr={options.run}", options)
    print(json.dumps(found, indent=1))
    note(
        f"/health p50 {found['health_p50_ms']:.1f} ms, p99 {found['health_p99_ms']:.1f} ms; {found['most_mib']:.0f} MiB"
        f" after {found['idle_mib']:.0f} idle; lost {found['lost']}; drained in {found['drain_seconds']:.1f} s"
    )


if __name__ == "__main__":
    main()
