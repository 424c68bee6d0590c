"""Layer norm over the last dimension (Ba et al. 2016): PyTorch's, or a kernel in training with bfloat16 rows."""

import ctypes
from ctypes import c_float, c_int64, c_void_p
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dikkat.kernels.calls import LANES, address, check_status, native_library, needs_backward, runs_native
from dikkat.kernels.gpu.choice import runs_triton

WIDEST_ON_GPU = 4096
"""Entries of the longest rows that the kernel of a GPU takes."""


def branched_layer_norm(
    x: Float[Tensor, "..."], weight: Float[Tensor, "..."], bias: Float[Tensor, "..."], eps: float
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """Return x and `(x - mean) / sqrt(variance + eps) * weight + bias` over the last dimensions, those of the weight.

    A residual sum takes x from here: a kernel then adds its gradient to that of the norm in the pass that makes it.
    The native kernel takes bfloat16 rows of whole vectors in training, and that of a GPU any rows, with PyTorch's
    results in less time; both are differentiable once.
    """
    if needs_backward(x, weight) and weight.dim() == 1:
        tensors = x, weight, bias
        if weight.shape[0] <= WIDEST_ON_GPU and runs_triton(*tensors):
            return _LayerNorm.apply(*tensors, eps)
        if all(t.dtype == torch.bfloat16 and t.shape[-1] % LANES == 0 for t in tensors) and runs_native(*tensors):
            return _LayerNorm.apply(*tensors, eps)
    return x, F.layer_norm(x, weight.shape, weight, bias, eps)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        ctx.set_materialize_grads(False)
        output, statistics = forward(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, statistics)
        ctx.eps = eps
        return x, output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, other: Tensor | None, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return other, None, None, None
        x, weight, bias, statistics = ctx.saved_tensors
        other = None if other is None else other.contiguous()
        return *backward(gradient.contiguous(), x, weight, bias, statistics, ctx.eps, other), None


class _Normalization(ctypes.Structure):
    """`Normalization` of norms.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "weight", "bias", "mean", "inverse")),
        *((name, c_int64) for name in ("rows", "width")),
        ("eps", c_float),
        ("threads", c_int64),
    )


def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Call the kernel for dense rows (..., D); returns them and float32 (2, rows): mean and inverse deviation."""
    if runs_triton(x):
        from dikkat.kernels.gpu import layer_norm as gpu

        return gpu.forward(x, weight, bias, eps)
    output, statistics = torch.empty_like(x), torch.empty(2, x.shape[:-1].numel())
    job = _job(x, weight, bias, statistics, eps)
    check_status(native_library().normalize_forward(ctypes.byref(job), address(output)))
    return output, statistics


def backward(
    gradient: Tensor, x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor, eps: float, other: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Call the kernel for the gradients of x, weight and bias, from a dense `gradient` and what `forward` had.

    The gradient of x that comes from an `other` branch is added.
    """
    if runs_triton(x):
        from dikkat.kernels.gpu import layer_norm as gpu

        grad_x, *of_parameters = gpu.backward(gradient, x, weight, statistics)
        return grad_x if other is None else grad_x + other, of_parameters[0], of_parameters[1]
    gradients = [torch.empty_like(tensor) for tensor in (x, weight, bias)]
    job = _job(x, weight, bias, statistics, eps)
    check_status(native_library().normalize_backward(ctypes.byref(job), *map(address, (gradient, other, *gradients))))
    return gradients[0], gradients[1], gradients[2]


def _job(x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor, eps: float) -> _Normalization:
    rows, mean = statistics.shape[1], statistics.data_ptr()
    addresses = (*map(address, (x, weight, bias)), mean, mean + rows * statistics.element_size())
    return _Normalization(*addresses, rows, x.shape[-1], eps, torch.get_num_threads())
