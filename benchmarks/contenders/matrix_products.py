"""Child of train_speed.py and decode_speed.py: how fast this machine multiplies the matrices of a model, and copies."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

COPIED_FLOATS = 1 << 26
"""More than any cache holds: 256 MiB."""


def main(job: dict[str, Any]) -> dict[str, Any]:
    """For both types, FLOP/s at each (rows, inputs, outputs) of `shapes`; bytes a second read and written by a copy."""
    torch.set_num_threads(job["threads"])
    return {
        "rates": {
            str(dtype).removeprefix("torch."): [
                rate(rows, inputs, outputs, dtype, job) for rows, inputs, outputs in job["shapes"]
            ]
            for dtype in (torch.float32, torch.bfloat16)
        },
        "copy_bytes_per_second": copy_rate(job["repeats"]),
    }


def rate(rows: int, inputs: int, outputs: int, dtype: torch.dtype, job: dict[str, Any]) -> float:
    """FLOP/s of a linear layer forward; with `backward`, over the three products of training it."""
    x = torch.randn(rows, inputs).to(dtype)
    weight = torch.randn(outputs, inputs).to(dtype)
    gradient = torch.randn(rows, outputs).to(dtype)
    products: list[Callable[[], Tensor]] = [lambda: x @ weight.t()]
    if job["backward"]:
        products += [lambda: gradient @ weight, lambda: gradient.t() @ x]
    seconds = sum(median_seconds(product, job["repeats"]) for product in products)
    return len(products) * 2.0 * rows * inputs * outputs / seconds


def copy_rate(repeats: int) -> float:
    source, copy = torch.ones(COPIED_FLOATS), torch.ones(COPIED_FLOATS)
    return 2 * 4 * COPIED_FLOATS / median_seconds(lambda: copy.copy_(source), repeats)


def median_seconds(product: Callable[[], Tensor], repeats: int) -> float:
    found = []
    for _ in range(repeats + 2):  # the first two warm the caches and the allocator
        started = time.perf_counter()
        product()
        found.append(time.perf_counter() - started)
    return statistics.median(found[2:])


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(main(json.loads(sys.argv[1]))))
