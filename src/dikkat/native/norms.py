"""Layer norm of bfloat16 rows and its gradients, natively: with PyTorch's results, in less time."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p

import torch
from torch import Tensor

from dikkat.native.calls import address, checked, native_library
from dikkat.native.kernels import runs_natively

PADDING = 16
"""Entries of a row come in so many, as in vectors.h."""


class _Normalization(ctypes.Structure):
    """`Normalization` of norms.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "weight", "bias", "mean", "inverse")),
        *((name, c_int64) for name in ("rows", "width")),
        ("eps", c_float),
        ("threads", c_int64),
    )


def normalizes_natively(*tensors: Tensor) -> bool:
    """Whether these can be the rows, weight and bias below: in bfloat16, of whole vectors."""
    is_narrow = all(each.dtype == torch.bfloat16 and each.shape[-1] % PADDING == 0 for each in tensors)
    return is_narrow and runs_natively(*tensors)


def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Normalised rows, of dense (..., D), and float32 (2, rows): the mean of each and the inverse of its deviation."""
    output, statistics = torch.empty_like(x), torch.empty(2, x.shape[:-1].numel())
    job = _normalization(x, weight, bias, statistics, eps)
    checked(native_library().normalize_forward(ctypes.byref(job), address(output)))
    return output, statistics


def backward(
    gradient: Tensor, x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows, weight and bias from a dense `gradient` (..., D) and what `forward` was given and found."""
    of_x, of_weight, of_bias = (torch.empty_like(each) for each in (x, weight, bias))
    job = _normalization(x, weight, bias, statistics, eps)
    call = native_library().normalize_backward
    checked(call(ctypes.byref(job), *map(address, (gradient, of_x, of_weight, of_bias))))
    return of_x, of_weight, of_bias


def _normalization(x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor, eps: float) -> _Normalization:
    vectors = map(address, (x, weight, bias, *statistics.unbind()))
    return _Normalization(*vectors, statistics.shape[1], x.shape[-1], eps, torch.get_num_threads())
