"""Child of long_sequences.py: seconds and memory of one form of causal attention at one length."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from benchmarks.contenders.memory import resident_bytes
from torch import Tensor
from torch.nn import functional as F

from dikkat.nn import (
    EncoderBlock,
    LinearAttentionState,
    causal_mask,
    chunked_attention,
    fused_attention,
    linear_attention,
    sliding_window_attention,
)

Sequence = tuple[Tensor, Tensor, Tensor]
Train = Callable[[int], None]
Decode = Callable[[int], Callable[[], object]]


class Form(NamedTuple):
    """What is timed, at any length."""

    train: Train
    """Forwards and backwards over a whole sequence."""
    begin_decoding: Decode
    """Gives the step of the next position, behind so many."""


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    form = forms(job)[job["form"]]
    form.train(64)
    before = resident_bytes("VmRSS")
    seconds = median(lambda: form.train(job["length"]), job["repeats"])
    return {
        "training_seconds": seconds,
        "training_peak_bytes": resident_bytes("VmHWM") - before,
        "decoding_seconds": median(form.begin_decoding(job["length"]), 20 * job["repeats"]),
        "versions": {"torch": torch.__version__},
    }


def forms(job: dict[str, Any]) -> dict[str, Form]:
    """Of each form a training step at a length, and what makes a decoding step behind so many positions."""
    heads, width, window = job["heads"], job["width"], job["window"]

    def inputs(length: int) -> Sequence:
        # (B, T, H, K) as a layer's projections leave it -> (B, H, T, K)
        query, key, value = (torch.randn(1, length, heads, width).transpose(1, 2) for _ in range(3))
        return query, key, value

    def trained(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Train:
        def train(length: int) -> None:
            attend(*(part.requires_grad_() for part in inputs(length))).square().sum().backward()

        return train

    def reading(most: int | None) -> Decode:
        def begin(length: int) -> Callable[[], object]:
            query, (_, key, value) = inputs(1)[0], inputs(length if most is None else min(length, most))
            key, value = key.contiguous(), value.contiguous()
            return torch.inference_mode()(lambda: fused_attention(query, key, value))

        return begin

    def summing(length: int) -> Callable[[], object]:
        state, newest = LinearAttentionState(), inputs(1)
        return lambda: state.step(*newest)

    return {
        "products": Form(trained(lambda q, k, v: fused_attention(q, k, v, causal_mask(q.shape[2]))), reading(None)),
        "fused kernel": Form(
            trained(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), reading(None)
        ),
        "chunked": Form(trained(lambda q, k, v: chunked_attention(q, k, v, causal=True)), reading(None)),
        "sliding window": Form(
            trained(lambda q, k, v: sliding_window_attention(q, k, v, window, causal=True)), reading(window + 1)
        ),
        "linear": Form(trained(lambda q, k, v: linear_attention(q, k, v, causal=True)), summing),
        "rest of the layer": rest_of_the_layer(heads * width),
    }


def rest_of_the_layer(width: int) -> Form:
    """Its projections and its feed-forward network, four times as wide."""
    block = EncoderBlock(width, 1, 4 * width)

    def rest(x: Tensor) -> Tensor:
        joined = block.self_attention.in_projection(x)[..., :width]
        return block.feed_forward_residual(x + block.self_attention.out_projection(joined), block.feed_forward)

    def train(length: int) -> None:
        rest(torch.randn(1, length, width, requires_grad=True)).square().sum().backward()

    def begin(length: int) -> Callable[[], object]:
        x = torch.randn(1, 1, width)
        return torch.inference_mode()(lambda: rest(x))

    return Form(train, begin)


def median(call: Callable[[], object], repeats: int) -> float:
    """Seconds, after one call that warms."""
    call()
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
