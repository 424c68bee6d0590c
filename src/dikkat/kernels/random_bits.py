"""The random 16-bit numbers of dropout: on a CPU a pure function of a seed and of their own index.

Every thread then makes its own, and a kernel can make them again instead of keeping them. The seed comes from PyTorch's
generator. Other devices have fast generators of their own.
"""

import torch
from torch import Tensor

from dikkat.kernels.calls import address, native_library, runs_native

VALUES = 1 << 16
"""Values of one 16-bit number."""
GAMMA = 0x9E3779B97F4A7C15
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31


def random_seed() -> int:
    """Draw 64 random bits, as a signed number, from PyTorch's generator of the CPU."""
    # the range is given in full since the default leaves the sign bit out
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None))


def random_bits(like: Tensor) -> Tensor:
    """Draw int16 numbers, uniform from -2**15, in the shape and on the device of `like`."""
    if like.device.type == "cpu":
        return bits_of_seed(random_seed(), like)
    words = torch.empty(_words(like), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return _as_int16(words, like)


def bits_of_seed(seed: int, like: Tensor) -> Tensor:
    """Return the int16 numbers of one seed in the shape of `like`, which is on a CPU."""
    if not runs_native(like):
        return _as_int16(splitmix64(seed, _words(like)), like)
    bits = torch.empty(like.numel(), dtype=torch.int16)
    native_library().make_random_bits(address(bits), seed, bits.numel(), torch.get_num_threads())
    return bits.view(like.shape)


def uniform_numbers(count: int) -> Tensor:
    """Draw (count,) float32 numbers between 0 and 1, each in the middle of one of 65,536 equal parts, on a CPU."""
    return random_bits(torch.empty(count)).float().add_(VALUES // 2 + 0.5).div_(VALUES)


def splitmix64(seed: int, count: int) -> Tensor:
    """Return the first numbers (count,) of SplitMix64 (Steele, Lea and Flood 2014, figure 16), bits as int64."""
    state = torch.arange(1, count + 1).mul_(_signed(GAMMA)).add_(_signed(seed))
    for shift, factor in ROUNDS:
        state.bitwise_xor_(_shift_right(state, shift)).mul_(_signed(factor))
    return state.bitwise_xor_(_shift_right(state, LAST_SHIFT))


def _shift_right(state: Tensor, by: int) -> Tensor:
    # torch shifts copies of the sign bit in; the generator needs zeros
    return (state >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def _words(like: Tensor) -> int:
    """Count the 64-bit numbers that `like` needs: one makes four of 16 bits."""
    return (like.numel() + 3) // 4


def _as_int16(words: Tensor, like: Tensor) -> Tensor:
    return words.view(torch.int16)[: like.numel()].view(like.shape)
