"""One start of every kernel, in the shapes of a small batch, to find out whether this computer compiles and runs it."""

from __future__ import annotations

import torch

from dikkat.kernels.calls import adjacent
from dikkat.kernels.gpu.attention import attention_backward, attention_forward
from dikkat.kernels.gpu.columns import sum_gated_rows, sum_rows
from dikkat.kernels.gpu.cross_entropy import smoothed_softmax
from dikkat.kernels.gpu.dropout import add_dropped
from dikkat.kernels.gpu.layer_norm import backward, forward

ROWS, WIDTH, HEADS, VOCABULARY = 256, 512, 8, 8000
LENGTHS = (32, 64, 128)
"""One for each size of tile, of which the largest takes most of a multiprocessor's memory."""


def launch_all(device: torch.device, dtype: torch.dtype) -> None:
    """Start every kernel once on `device`, which compiles it; raises what Triton, its compilers or the driver raise."""
    x = torch.zeros(ROWS, WIDTH, device=device, dtype=dtype)
    weight = torch.ones(WIDTH, device=device, dtype=dtype)
    add_dropped(x, x, 1, 0, 2.0)
    add_dropped(None, x, 1, 0, 2.0)
    _, statistics = forward(x, weight, weight, 1e-5)
    backward(x, x, weight, statistics)
    sum_rows(x, weight)
    sum_gated_rows(x, x, weight)
    logits = torch.zeros(ROWS, VOCABULARY, device=device, dtype=dtype)
    smoothed_softmax(logits, torch.zeros(ROWS, device=device, dtype=torch.int64), 0.1)
    for length in LENGTHS:
        query = x[:length].view(1, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        mask = torch.ones(1, 1, 1, length, device=device, dtype=torch.bool).expand(1, HEADS, length, length)
        attention_forward(query, query, query, mask, 1.0)
        attention_backward(query, query, query, query, mask, 1.0, adjacent(query, query, query))
