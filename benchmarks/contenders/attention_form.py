"""Child of efficient_attention.py: seconds, memory and error of one form of attention at one length."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.contenders.memory import resident_bytes
from torch import Tensor
from torch.nn import functional as F

from dikkat.nn import chunked_attention, linear_attention, sliding_window_attention
from dikkat.nn.functional import attention

ROWS = 1024
"""Queries whose exact weights are held at once when errors are taken."""


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 1, job["length"], job["width"]) for _ in range(3))
    attend = form(job["form"], job["window"])
    few = slice(0, 8)
    attend(query[..., few, :], key[..., few, :], value[..., few, :])  # what is loaded once is no cost of a call
    before = resident_bytes("VmRSS")
    seconds, output = timed(lambda: attend(query, key, value), job["repeats"])
    peak = resident_bytes("VmHWM") - before
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "errors": errors(output, query, key, value, job) if job["errors"] else {},
        "versions": {"torch": torch.__version__},
    }


def form(name: str, window: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    forms: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
        "full matrix": lambda q, k, v: attention(q, k, v)[0],
        "fused kernel": F.scaled_dot_product_attention,
        "chunked": chunked_attention,
        "sliding window": lambda q, k, v: sliding_window_attention(q, k, v, window),
        "linear": linear_attention,
    }
    return forms[name]


def timed(attend: Callable[[], Tensor], repeats: int) -> tuple[float, Tensor]:
    """Median seconds of `repeats` calls after one that warms up, and the output."""
    output, found = attend(), []
    for _ in range(repeats):
        started = time.perf_counter()
        output = attend()
        found.append(time.perf_counter() - started)
    return statistics.median(found), output


def errors(output: Tensor, query: Tensor, key: Tensor, value: Tensor, job: dict[str, Any]) -> dict[str, Any]:
    """Against exact attention to all keys in float64; the sliding window also against exact attention within it."""
    found = {"all keys": error(output, query, key, value, None)}
    if job["form"] == "sliding window":
        found["keys in the window"] = error(output, query, key, value, job["window"])
    return found


def error(output: Tensor, query: Tensor, key: Tensor, value: Tensor, window: int | None) -> dict[str, float]:
    """The largest difference, and the root mean square of all over that of the exact output."""
    positions = torch.arange(query.shape[-2])
    largest, wrong, whole = 0.0, 0.0, 0.0
    for rows in positions.split(ROWS):
        mask = None if window is None else (positions - rows[:, None]).abs() <= window
        exact, _ = attention(query[..., rows, :].double(), key.double(), value.double(), mask)
        difference = output[..., rows, :].double() - exact
        largest = max(largest, difference.abs().max().item())
        wrong, whole = wrong + difference.square().sum().item(), whole + exact.square().sum().item()
    return {"largest": largest, "relative": (wrong / whole) ** 0.5}


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(main(json.loads(sys.argv[1]))))
