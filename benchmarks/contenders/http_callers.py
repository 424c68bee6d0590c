"""Callers of a server: as little work as possible of their own, so that it is the server that is measured."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request was answered with; status 0 where the connection ended without an answer."""

    status: int
    retry_after: str
    body: bytes
    sent_at: float
    seconds: float


class Caller:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, fields: object) -> Answer:
        """Ask once; a connection that has ended is opened anew before."""
        body = json.dumps(fields).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        request = head.encode() + str(len(body)).encode() + HEAD_END + body
        start = time.perf_counter()
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                start = time.perf_counter()
            assert self._reader is not None
            self._writer.write(request)
            await self._writer.drain()
            answer = await self._reader.readuntil(HEAD_END)
            found = re.search(rb"content-length: (\d+)", answer)
            content = await self._reader.readexactly(int(found[1]) if found else 0)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return Answer(0, "", b"", start, time.perf_counter() - start)
        seconds = time.perf_counter() - start
        later = re.search(rb"[Rr]etry-[Aa]fter: (\S+)", answer)
        return Answer(int(answer[9:12]), later[1].decode() if later else "", content, start, seconds)

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
        self._reader = self._writer = None


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    ready_seconds: float

    def memory(self, kind: str = "VmRSS") -> float:
        """MiB that it holds; `VmHWM` is the most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{kind}:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024

    def processor_seconds(self) -> float:
        """Time that all its threads have computed."""
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*options: str | Path, port: int = 0) -> Iterator[Server]:
    """A server that runs until the block ends."""
    path = os.pathsep.join([str(ROOT / "runtime/src"), os.environ.get("PYTHONPATH", "")])
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "dikkat_runtime", "serve", *map(str, options), "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        line = next((line for line in process.stderr if "kernels" not in line), "")
        found = re.search(r"http://\S+:(\d+)", line)
        if not found:
            raise SystemExit(f"the server did not start: {line.strip()}")
        yield Server(process, int(found[1]), time.perf_counter() - start)
    finally:
        process.kill()
        process.communicate()


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def milliseconds(answers: list[Answer]) -> dict[str, Any]:
    """Median and 99th percentile."""
    seconds = [answer.seconds for answer in answers]
    return {"p50_ms": 1000 * percentile(seconds, 0.5), "p99_ms": 1000 * percentile(seconds, 0.99)}
