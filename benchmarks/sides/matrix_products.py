"""Child of train_speed.py: how fast this machine multiplies the matrices of the model, the roof over any training."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def main(job: dict[str, Any]) -> dict[str, list[float]]:
    """For both types, FLOP/s at each (inputs, outputs) of `shapes`."""
    torch.set_num_threads(job["threads"])
    return {
        str(dtype).removeprefix("torch."): [
            rate(job["rows"], inputs, outputs, dtype, job["repeats"]) for inputs, outputs in job["shapes"]
        ]
        for dtype in (torch.float32, torch.bfloat16)
    }


def rate(rows: int, inputs: int, outputs: int, dtype: torch.dtype, repeats: int) -> float:
    """FLOP/s over the three products that a linear layer needs in training: forward, input and weight gradient."""
    x = torch.randn(rows, inputs).to(dtype)
    weight = torch.randn(outputs, inputs).to(dtype)
    gradient = torch.randn(rows, outputs).to(dtype)
    products: list[Callable[[], Tensor]] = [
        lambda: x @ weight.t(),
        lambda: gradient @ weight,
        lambda: gradient.t() @ x,
    ]
    seconds = sum(median_seconds(product, repeats) for product in products)
    return 3 * 2.0 * rows * inputs * outputs / seconds


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
