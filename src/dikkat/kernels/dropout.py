"""Dropout by 16-bit numbers: on a CPU made where they are needed, by all threads, and just as reproducible.

The mask is a pure function of PyTorch's generator, which training seeds from (seed, update, micro-batch).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels.calls import address, is_float32, native_library, runs_native
from dikkat.kernels.gpu.choice import runs_triton
from dikkat.kernels.random_bits import VALUES, bits_of_seed, random_bits, random_seed


def dropout(x: Tensor, probability: float, residual: Tensor | None = None) -> Tensor:
    """Compute `residual + dropout(x)` in one pass over memory; without a residual, dropout alone.

    Entries of `x` become zero with `probability`, rounded to a multiple of 2**-16; the others are scaled so that the
    mean stays (Srivastava et al. 2014). The native kernel, PyTorch on a CPU and the kernel of a GPU drop the same
    entries for the same generator of a CPU; a GPU without that kernel draws by its own generator and operator.
    """
    if probability == 0.0:
        return x if residual is None else residual + x
    tensors = (x,) if residual is None else (x, residual)
    if runs_triton(*tensors) or runs_native(*tensors):
        return _AddDropped.apply(residual, x, random_seed(), drop_threshold(probability))
    if x.device.type != "cpu":
        dropped = F.dropout(x, probability)
        return dropped if residual is None else residual + dropped
    kept = keep_mask(x, probability)
    return x * kept if residual is None else torch.addcmul(residual, x, kept)


def keep_mask(like: Tensor, probability: float) -> Tensor:
    """Draw a tensor of the shape and type of `like`: 0 with `probability`, else `1 / (1 - probability)`."""
    return mask_of(random_bits(like), drop_threshold(probability), like.dtype)


def mask_of(bits: Tensor, threshold: int, dtype: torch.dtype) -> Tensor:
    """Return 0 where a 16-bit number lies below the threshold, else the scale that keeps the mean at exactly 1."""
    return (bits >= threshold - VALUES // 2).to(dtype).mul_(drop_scale(threshold))


def drop_threshold(probability: float) -> int:
    """Return the probability in multiples of 2**-16: the numbers below it, counted from the least, drop an entry."""
    return min(round(probability * VALUES), VALUES - 1)


def drop_scale(threshold: int) -> float:
    """Return the factor of the entries that stay."""
    return VALUES / (VALUES - threshold)


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor | None, x: Tensor, seed: int, threshold: int) -> Tensor:
        ctx.seed, ctx.threshold = seed, threshold
        return add_dropped(residual, x, seed, threshold)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        of_residual = gradient if ctx.needs_input_grad[0] else None
        if torch.is_grad_enabled():  # somebody differentiates twice, which a kernel cannot
            mask = mask_of(bits_of_seed(ctx.seed, torch.empty(gradient.shape)), ctx.threshold, gradient.dtype)
            mask = mask.to(gradient.device)
            return of_residual, gradient * mask, None, None
        return of_residual, add_dropped(None, gradient, ctx.seed, ctx.threshold), None, None


def add_dropped(residual: Tensor | None, x: Tensor, seed: int, threshold: int) -> Tensor:
    """Call the kernel for `residual + x * mask_of(bits_of_seed(seed))`, of one shape and type."""
    x = x.contiguous()
    residual = None if residual is None else residual.contiguous()
    mask = seed, threshold - VALUES // 2, drop_scale(threshold)
    if runs_triton(x):
        from dikkat.kernels.gpu.dropout import add_dropped as gpu_add_dropped

        return gpu_add_dropped(residual, x, *mask)
    output = torch.empty_like(x)
    addresses = map(address, (output, residual, x))
    native_library().add_dropped(*addresses, *mask, x.numel(), is_float32(x), torch.get_num_threads())
    return output
