"""The random numbers of dropout: on a CPU a pure function of a seed and of their own place.

That way every thread makes its own, and a kernel can make them again instead of keeping them. The seed comes from
PyTorch's generator. Other devices have fast generators of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dikkat.native import kernels

GAMMA = 0x9E3779B97F4A7C15
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31


def drawn_seed() -> int:
    """64 random bits, as a signed number, from PyTorch's generator of the CPU."""
    # the range is given in full since the default leaves the sign bit out
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))


def random_levels(like: Tensor) -> Tensor:
    """16-bit draws, uniform from -2**15, in the shape of `like`."""
    if like.device.type == "cpu":
        return levels_of(drawn_seed(), like)
    draws = torch.empty(_words(like), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return _as_levels(draws, like)


def levels_of(seed: int, like: Tensor) -> Tensor:
    """The draws of one seed in the shape of `like`, which is on a CPU."""
    if kernels.runs_natively(like):
        return kernels.drawn_levels(seed, like.numel()).view(like.shape)
    return _as_levels(splitmix64(seed, _words(like)), like)


def uniform_numbers(count: int) -> Tensor:
    """(count,): float32 numbers between 0 and 1, each in the middle of one of 65,536 equal parts, on a CPU."""
    return random_levels(torch.empty(count)).float().add_(kernels.LEVELS // 2 + 0.5).div_(kernels.LEVELS)


def splitmix64(seed: int, count: int) -> Tensor:
    """(count,): the numbers of the generator SplitMix64 (Steele, Lea and Flood 2014, figure 16), bits as int64."""
    state = torch.arange(1, count + 1).mul_(_signed(GAMMA)).add_(_signed(seed))
    for shift, factor in ROUNDS:
        state.bitwise_xor_(_shifted(state, shift)).mul_(_signed(factor))
    return state.bitwise_xor_(_shifted(state, LAST_SHIFT))


def _shifted(state: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (state >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def _words(like: Tensor) -> int:
    """One 64-bit number makes four draws."""
    return (like.numel() + 3) // 4


def _as_levels(words: Tensor, like: Tensor) -> Tensor:
    return words.view(torch.int16)[: like.numel()].view(like.shape)
