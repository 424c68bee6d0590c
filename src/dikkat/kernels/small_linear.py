"""Linear layers with few weights in training: native products over float32 tensors, read as they lie in memory.

Their PyTorch twin is `batch_invariant.linear`, which differs in the order of its sums.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.kernels.calls import LANES, address, check_status, native_library, needs_backward, runs_native

MAX_WEIGHTS = 1 << 14
"""A larger matrix does not stay in the first cache, and PyTorch's own products are faster."""


def is_small(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Tell whether the kernel takes these: in training, float32, few weights, and widths that are multiples of 16."""
    if weight.dtype != torch.float32 or weight.numel() > MAX_WEIGHTS or any(width % LANES for width in weight.shape):
        return False
    return needs_backward(x, weight, bias) and runs_native(x, weight)


def small_linear(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"] | None,
    *,
    relu: bool = False,
) -> Float[Tensor, "*rows E"]:
    """Compute `x weight^T + bias`, and with `relu` its ReLU; a row has the same bits in any company."""
    output: Tensor = _SmallLinear.apply(x.reshape(-1, x.shape[-1]), weight, bias, relu)
    return output.view(*x.shape[:-1], weight.shape[0])


class _SmallLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        dense = x.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous()
        output = forward(*dense, relu=relu)
        ctx.save_for_backward(x, weight, output if relu else None)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, rectified = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # somebody differentiates twice, which a kernel cannot
            flow = gradient if rectified is None else gradient * (rectified > 0)
            return flow @ weight, flow.t() @ x, flow.sum(0) if wanted[2] else None, None
        return *backward(gradient.contiguous(), x.contiguous(), weight.contiguous(), rectified, wanted), None


class _SmallLinearStruct(ctypes.Structure):
    """`SmallLinear` of small_linear.c."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "inputs", "outputs")),
        *((name, c_void_p) for name in ("x", "weight", "bias", "rectified")),
        ("threads", c_int64),
    )


class _Gradients(ctypes.Structure):
    """`LinearGradients` of small_linear.c."""

    _fields_ = tuple((name, c_void_p) for name in ("grad_x", "grad_weight", "grad_bias"))


def forward(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None, *, relu: bool = False
) -> Float[Tensor, "N E"]:
    """Call the kernel for `x weight^T + bias` of dense tensors, and with `relu` its ReLU."""
    output = x.new_empty(x.shape[0], weight.shape[0])
    job = _job(x, weight, bias)
    check_status(native_library().small_linear(ctypes.byref(job), address(output), relu))
    return output


def backward(
    gradient: Float[Tensor, "N E"],
    x: Float[Tensor, "N D"],
    weight: Float[Tensor, "E D"],
    rectified: Float[Tensor, "N E"] | None,
    wanted: tuple[bool, bool, bool],
) -> tuple[Float[Tensor, "N D"] | None, Float[Tensor, "E D"] | None, Float[Tensor, "E"] | None]:
    """Call the kernel for the `wanted` gradients of x, weight and bias, from dense tensors.

    They are `gradient weight`, `gradient^T x` and the sum of the gradient. Nothing flows where a `rectified` output is
    zero. The number of threads changes no bit.
    """
    shapes = x.shape, weight.shape, weight.shape[:1]
    gradients = [x.new_empty(shape) if is_wanted else None for shape, is_wanted in zip(shapes, wanted, strict=True)]
    job, outputs = _job(x, weight, None, rectified), _Gradients(*(address(tensor) for tensor in gradients))
    call = native_library().small_linear_backward
    check_status(call(ctypes.byref(job), address(gradient), ctypes.byref(outputs)))
    return gradients[0], gradients[1], gradients[2]


def _job(x: Tensor, weight: Tensor, bias: Tensor | None, rectified: Tensor | None = None) -> _SmallLinearStruct:
    return _SmallLinearStruct(
        x.shape[0],
        x.shape[1],
        weight.shape[0],
        address(x),
        address(weight),
        address(bias),
        address(rectified),
        torch.get_num_threads(),
    )
