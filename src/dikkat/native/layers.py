"""Weights of linear layers and norms as the native encoder and decoder read them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass

from torch import Tensor

from dikkat.native.quantized import PackedWeights


@dataclass(frozen=True, slots=True, eq=False)
class LinearWeights:
    """`x @ weight.T + bias`."""

    weight: Tensor
    """(outputs, inputs)."""
    bias: Tensor | None = None
    packed: PackedWeights | None = None
    """The same weights in eight bits, which then are the ones in use."""


@dataclass(frozen=True, slots=True, eq=False)
class NormWeights:
    """Layer norm; without weight and bias, the norm alone."""

    weight: Tensor | None
    bias: Tensor | None
    eps: float


class _Linear(ctypes.Structure):
    """`Linear` of linear.h."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("packed_weight", c_void_p),
        ("packed_scale", c_void_p),
        ("packed_shift", c_void_p),
    )


class _Norm(ctypes.Structure):
    """`Norm` of layers.h."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("present", c_int64), ("eps", c_float))


def linear_array(layers: Sequence[LinearWeights]) -> ctypes.Array[_Linear]:
    """For C; the tensors must outlive it."""
    return (_Linear * len(layers))(*map(_linear, layers))


def norm_array(norms: Sequence[NormWeights | None]) -> ctypes.Array[_Norm]:
    """For C; None is no norm. The tensors must outlive it."""
    return (_Norm * len(norms))(*map(_norm, norms))


def pointer(tensor: Tensor | None) -> int | None:
    """Where its entries lie."""
    return None if tensor is None else tensor.data_ptr()


def _linear(weights: LinearWeights) -> _Linear:
    packed = (
        ()
        if weights.packed is None
        else map(pointer, (weights.packed.weight, weights.packed.scale, weights.packed.shift))
    )
    return _Linear(pointer(weights.weight), pointer(weights.bias), *reversed(weights.weight.shape), *packed)


def _norm(weights: NormWeights | None) -> _Norm:
    if weights is None:
        return _Norm(present=0)
    return _Norm(pointer(weights.weight), pointer(weights.bias), 1, weights.eps)
