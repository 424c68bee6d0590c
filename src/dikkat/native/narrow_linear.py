"""Linear layers of narrow models in training, over float32 tensors."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.native.calls import address, checked, native_library
from dikkat.native.kernels import LANES, runs_natively

MOST_WEIGHTS = 1 << 14
"""A larger matrix does not stay in the first cache, and PyTorch's own products are faster."""


class _NarrowLinear(ctypes.Structure):
    """`NarrowLinear` of narrow_linear.c."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "inputs", "outputs")),
        *((name, c_void_p) for name in ("x", "weight", "bias")),
        ("threads", c_int64),
    )


def is_narrow(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for these: float32, on the CPU, few weights, and widths that are multiples of 16."""
    fits = weight.numel() <= MOST_WEIGHTS and not any(width % LANES for width in weight.shape)
    return fits and weight.dtype == torch.float32 and runs_natively(x, weight)


def linear(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None
) -> Float[Tensor, "N E"]:
    """`x weight^T + bias` of dense tensors; a row has the same bits in any company."""
    output = x.new_empty(x.shape[0], weight.shape[0])
    job = _job(x, weight, bias)
    checked(native_library("is_narrow").narrow_linear(ctypes.byref(job), address(output)))
    return output


def input_gradient(
    gradient: Float[Tensor, "N E"], x: Float[Tensor, "N D"], weight: Float[Tensor, "E D"]
) -> Float[Tensor, "N D"]:
    """`gradient weight` of dense tensors."""
    found, job = torch.empty_like(x), _job(x, weight, None)
    native_library("is_narrow").narrow_linear_of_x(ctypes.byref(job), address(gradient), address(found))
    return found


def weight_gradient(
    gradient: Float[Tensor, "N E"], x: Float[Tensor, "N D"], weight: Float[Tensor, "E D"], *, with_bias: bool
) -> tuple[Float[Tensor, "E D"], Float[Tensor, "E"] | None]:
    """`gradient^T x` of dense tensors and the sum of the gradient; the number of threads changes no bit."""
    found, job = torch.empty_like(weight), _job(x, weight, None)
    of_bias = x.new_empty(weight.shape[0]) if with_bias else None
    called = native_library("is_narrow").narrow_linear_of_weight
    checked(called(ctypes.byref(job), address(gradient), address(found), address(of_bias)))
    return found, of_bias


def _job(x: Tensor, weight: Tensor, bias: Tensor | None) -> _NarrowLinear:
    return _NarrowLinear(
        x.shape[0],
        x.shape[1],
        weight.shape[0],
        address(x),
        address(weight),
        address(bias),
        torch.get_num_threads(),
    )
