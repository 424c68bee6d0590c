"""Dropout by the 16-bit numbers of `dikkat.kernels.random_bits`, made where they are needed, as a processor does.

The mask of a seed is that of the native kernel of a processor, bit for bit.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from dikkat.kernels.random_bits import GAMMA, LAST_SHIFT, ROUNDS

_GAMMA = tl.constexpr(GAMMA)
_FIRST_SHIFT, _FIRST_FACTOR = tl.constexpr(ROUNDS[0][0]), tl.constexpr(ROUNDS[0][1])
_SECOND_SHIFT, _SECOND_FACTOR = tl.constexpr(ROUNDS[1][0]), tl.constexpr(ROUNDS[1][1])
_LAST_SHIFT = tl.constexpr(LAST_SHIFT)
WORDS = 512
"""Random 64-bit numbers of a program, each for four entries."""


@triton.jit(do_not_specialize=["seed", "threshold", "entries"])  # type: ignore[untyped-decorator,unused-ignore]
def _add_dropped(residual, x, output, seed, threshold, scale, entries, ADDS: tl.constexpr, WORDS: tl.constexpr):
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    lane = tl.arange(0, 4)
    state = (word + 1).to(tl.uint64) * _GAMMA + seed.to(tl.int64).to(tl.uint64)
    state = (state ^ (state >> _FIRST_SHIFT)) * _FIRST_FACTOR
    state = (state ^ (state >> _SECOND_SHIFT)) * _SECOND_FACTOR
    state = state ^ (state >> _LAST_SHIFT)
    number = ((state[:, None] >> (16 * lane).to(tl.uint64)[None, :]) & 0xFFFF).to(tl.int32)
    # as a signed number of 16 bits
    number = tl.where(number >= 32768, number - 65536, number)
    offsets = word[:, None] * 4 + lane[None, :]
    inside = offsets < entries
    value = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(number >= threshold, value * scale, 0.0)
    if ADDS:
        value += tl.load(residual + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + offsets, value.to(output.dtype.element_ty), mask=inside)


def add_dropped(residual: Tensor | None, x: Tensor, seed: int, threshold: int, scale: float) -> Tensor:
    """Compute `residual + x * scale` where the seed's signed 16-bit number reaches `threshold`, else `residual`.

    Both have one shape and type and are dense; without a residual it is zero.
    """
    output, entries = torch.empty_like(x), x.numel()
    if entries:
        tensors = (x if residual is None else residual, x, output)
        _add_dropped[(triton.cdiv(entries, 4 * WORDS),)](
            *tensors, seed, threshold, scale, entries, ADDS=residual is not None, WORDS=WORDS
        )
    return output
