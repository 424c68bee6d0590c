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
        *((name, c_void_p) for name in ("x", "weight", "bias", "rectified")),
        ("threads", c_int64),
    )


class _Gradients(ctypes.Structure):
    """`LinearGradients` of narrow_linear.c."""

    _fields_ = tuple((name, c_void_p) for name in ("of_x", "of_weight", "of_bias"))


def is_narrow(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for these: float32, on the CPU, few weights, and widths that are multiples of 16."""
    fits = weight.numel() <= MOST_WEIGHTS and not any(width % LANES for width in weight.shape)
    return fits and weight.dtype == torch.float32 and runs_natively(x, weight)


def linear(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None, *, rectifies: bool = False
) -> Float[Tensor, "N E"]:
    """`x weight^T + bias` of dense tensors, its ReLU where it `rectifies`; a row has the same bits in any company."""
    output = x.new_empty(x.shape[0], weight.shape[0])
    job = _job(x, weight, bias)
    checked(native_library("is_narrow").narrow_linear(ctypes.byref(job), address(output), rectifies))
    return output


def gradients(
    gradient: Float[Tensor, "N E"],
    x: Float[Tensor, "N D"],
    weight: Float[Tensor, "E D"],
    rectified: Float[Tensor, "N E"] | None,
    wanted: tuple[bool, bool, bool],
) -> tuple[Float[Tensor, "N D"] | None, Float[Tensor, "E D"] | None, Float[Tensor, "E"] | None]:
    """Those of `x`, weight and bias that are `wanted`: `gradient weight`, `gradient^T x` and the sum of the gradient.

    All tensors are dense. Nothing flows where a layer that was `rectified` gave zero. The number of threads changes no
    bit.
    """
    shapes = x.shape, weight.shape, weight.shape[:1]
    found = [x.new_empty(shape) if each else None for shape, each in zip(shapes, wanted, strict=True)]
    job, to = _job(x, weight, None, rectified), _Gradients(*(address(each) for each in found))
    called = native_library("is_narrow").narrow_linear_backward
    checked(called(ctypes.byref(job), address(gradient), ctypes.byref(to)))
    return found[0], found[1], found[2]


def _job(x: Tensor, weight: Tensor, bias: Tensor | None, rectified: Tensor | None = None) -> _NarrowLinear:
    return _NarrowLinear(
        x.shape[0],
        x.shape[1],
        weight.shape[0],
        address(x),
        address(weight),
        address(bias),
        address(rectified),
        torch.get_num_threads(),
    )
