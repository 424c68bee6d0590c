"""What every decoding side does with its engine: whole files in batches, then single sentences, against the clock.

Every side goes from text to text, so that all pay for their tokenizer; what that costs alone is measured too.
Needs nothing but Python, since it runs in the environments of the peers as well.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

WARM_SENTENCES = 8
"""Translated one by one before single sentences are timed."""


class Engine(Protocol):
    def translate(self, lines: Sequence[str], beam_size: int, batch_size: int) -> list[str]:
        """Translations of `lines`, in their order."""
        ...

    def turn_around(self, lines: Sequence[str]) -> list[str]:
        """Text to ids and back: the work of the tokenizer alone."""
        ...


def against_the_clock(engine: Engine, job: dict[str, Any]) -> dict[str, Any]:
    """By search: seconds for all lines at each batch size, and those of single sentences. Texts go into a file."""
    lines = json.loads(Path(job["lines"]).read_text(encoding="utf-8"))["sources"]
    texts: dict[str, list[str]] = {}
    engine.turn_around(lines)  # fills caches and starts threads
    found: dict[str, Any] = {"tokenizing_seconds": timed(engine.turn_around, lines)[0], "searches": {}}
    for name, search in job["searches"].items():
        batches, beam = {}, search["beam_size"]
        for size in search["batch_sizes"]:
            engine.translate(lines[: job["warm"]], beam, size)
            batches[size], texts[name] = timed(engine.translate, lines, beam, size)
        found["searches"][name] = {"batch_seconds": batches, **alone(engine, spread(lines, job["alone"]), beam)}
    Path(job["texts"]).write_text(json.dumps(texts), encoding="utf-8")
    return found


def alone(engine: Engine, lines: Sequence[str], beam: int) -> dict[str, float]:
    for line in lines[:WARM_SENTENCES]:
        engine.translate([line], beam, 1)
    seconds = sorted(timed(engine.translate, [line], beam, 1)[0] for line in lines)
    return {"alone_p50": statistics.median(seconds), "alone_p90": seconds[math.ceil(0.9 * len(seconds)) - 1]}


def spread(lines: Sequence[str], count: int) -> list[str]:
    """At most `count` lines, evenly from all over the file."""
    return list(lines[:: max(1, len(lines) // count)][:count])


def timed(work: Callable[..., list[str]], *given: object) -> tuple[float, list[str]]:
    started = time.perf_counter()
    texts = work(*given)
    return time.perf_counter() - started, texts
