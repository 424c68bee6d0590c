"""Linear layers in eight bits: weights laid out as the native kernels read them, and products with such weights.

Every function of tensors has a twin in `quantized_by_torch`, which does the same where there is no native code.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from dikkat.native import quantized_by_torch as twin
from dikkat.native.calls import address, checked, is_wide, native_library
from dikkat.native.kernels import runs_natively
from dikkat.native.quantized_by_torch import LANES, PANEL, QUAD


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeights:
    """Eight-bit integers with one scale for each output: the weight is about integer x scale (its largest is 127)."""

    weight: Tensor
    """int8, (outputs / 64, inputs / 4, 64, 4), zeros where there are none."""
    scale: Tensor
    """float32, (outputs), in whole panels; no number where a weight of the output is none."""
    shift: Tensor
    """int32, (outputs), in whole panels: the sum of the integers of an output, times 128."""


class _Packing(ctypes.Structure):
    """`Packing` of byte_linear.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("weight", "scale", "shift", "source")),
        *((name, c_int64) for name in ("step", "outputs", "inputs", "columns", "wide")),
    )


class _Backward(ctypes.Structure):
    """`Backward` of byte_gradient.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("of_x", "of_weight", "of_bias", "gradient", "x")),
        *((name, c_int64) for name in ("gradient_step", "x_step", "rows", "outputs", "inputs")),
        ("gate", c_void_p),
        ("weights", _Packing),
        *((name, c_int64) for name in ("wide", "threads")),
    )


class _Finish(ctypes.Structure):
    """`Finish` of quantized.h; whether it streams is up to the kernel."""

    _fields_ = (("bias", c_void_p), ("gate", c_void_p), ("rectifies", ctypes.c_int), ("streams", ctypes.c_int))


def pack(weight: Tensor, *, columns: bool = False) -> PackedWeights:
    """Of (outputs, inputs), or with `columns` of (inputs, outputs), in float32 or bfloat16."""
    weight = weight.detach()
    if not runs_natively(weight):
        return PackedWeights(*twin.pack(weight.T if columns else weight))
    packed, _kept, packing = _to_be_packed(weight, columns)
    checked(native_library().pack_bytes(ctypes.byref(packing), torch.get_num_threads()))
    return packed


def packed_linear(x: Tensor, packed: PackedWeights, out: Tensor) -> Tensor:
    """(rows, inputs) times packed weights, into a dense `out` (rows, outputs) of the same type.

    Each row is rounded to eight bits with a scale of its own, and the sums are exact: a row has the same bits in any
    company.
    """
    if not runs_natively(x, out):
        return out.copy_(twin.linear(x, packed.weight, packed.scale, out.shape[1], None))
    panels, quads = -(-out.shape[1] // PANEL), -(-x.shape[1] // LANES) * (LANES // QUAD)
    if packed.weight.shape[:2] != (panels, quads) or len(x) != len(out) or not out.is_contiguous():
        raise ValueError(
            f"{tuple(packed.weight.shape)} packed weights do not turn {tuple(x.shape)} into {tuple(out.shape)}"
        )
    found = (packed.weight, packed.scale, packed.shift)
    packing = _Packing(*map(address, found), None, 0, out.shape[1], x.shape[1])
    return _multiplied(x, packing, _Finish(), out)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    columns: bool = False,
    rectifies: bool = False,
    gate: Tensor | None = None,
) -> Tensor:
    """The same with weights (outputs, inputs), or with `columns` (inputs, outputs), that are packed on the way.

    Where it `rectifies`, its ReLU. Nothing passes where a `gate` (rows, outputs) is not above zero, as behind a ReLU
    that gave the gate.
    """
    weight = weight.detach()
    if not runs_natively(x, weight, *(each for each in (bias, gate) if each is not None)):
        packed = pack(weight, columns=columns)
        found = twin.linear(x, packed.weight, packed.scale, weight.shape[columns], bias)
        found = found.relu() if rectifies else found
        return found if gate is None else torch.ops.aten.threshold_backward(found, gate, 0.0)
    gate = None if gate is None else gate.contiguous()
    *_kept, packing = _to_be_packed(weight, columns)
    finish = _Finish(address(bias), address(gate), rectifies)
    return _multiplied(x, packing, finish, x.new_empty(x.shape[0], weight.shape[columns]))


def gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    found: Tensor | None = None,
    of_bias: Tensor | None = None,
    *,
    with_bias: bool,
    gate: Tensor | None = None,
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """What flows back, from a gradient (rows, outputs), through `linear` of x (rows, inputs) and a weight.

    To x, if there is a weight (outputs, inputs), as `linear` with columns and the `gate` finds it; to the weight,
    gradient^T times x, in the type of both; and to the bias. Columns are rounded to eight bits with a scale for each
    block of some 256 rows; the sums of these are exact, and added in float32, as is the gradient itself, which is not
    rounded for its own sum. Dense tensors `found` and `of_bias`, where they are given, are filled and returned.
    """
    found = x.new_empty(gradient.shape[1], x.shape[1]) if found is None else found
    of_bias = x.new_empty(gradient.shape[1]) if of_bias is None and with_bias else of_bias
    if not runs_natively(gradient, x, found, *(each for each in (weight, gate) if each is not None)):
        of_x = None if weight is None else linear(gradient, weight, columns=True, gate=gate)
        sums = None if of_bias is None else of_bias.copy_(gradient.sum(0, dtype=torch.float32))
        return of_x, found.copy_(twin.weight_gradient(gradient, x)), sums
    gradient, x = (each if each.stride(1) == 1 else each.contiguous() for each in (gradient, x))
    gate = None if gate is None else gate.contiguous()
    of_x, packing, _kept = None, _Packing(), None
    if weight is not None:
        of_x = x.new_empty(x.shape)
        *_kept, packing = _to_be_packed(weight.detach(), True)
    job = _Backward(
        *map(address, (of_x, found, of_bias, gradient, x)),
        gradient.stride(0),
        x.stride(0),
        x.shape[0],
        *found.shape,
        address(gate),
        packing,
        is_wide(x),
        torch.get_num_threads(),
    )
    checked(native_library().byte_gradients(ctypes.byref(job)))
    return of_x, found, of_bias


def _to_be_packed(weight: Tensor, columns: bool) -> tuple[PackedWeights, Tensor, _Packing]:
    """Room for packed weights and what it is filled from, which must live until that is done, and how it is filled."""
    weight = weight if weight.stride(1) == 1 else weight.contiguous()
    outputs, inputs = weight.shape[::-1] if columns else weight.shape
    panels, quads = -(-outputs // PANEL), -(-inputs // LANES) * (LANES // QUAD)
    packed = PackedWeights(
        torch.empty(panels, quads, PANEL, QUAD, dtype=torch.int8),
        torch.empty(panels * PANEL),
        torch.empty(panels * PANEL, dtype=torch.int32),
    )
    addresses = map(address, (packed.weight, packed.scale, packed.shift, weight))
    return packed, weight, _Packing(*addresses, weight.stride(0), outputs, inputs, columns, is_wide(weight))


def _multiplied(x: Tensor, packing: _Packing, finish: _Finish, out: Tensor) -> Tensor:
    x = x if x.stride(1) == 1 else x.contiguous()
    checked(
        native_library().byte_linear(
            address(out),
            address(x),
            c_int64(x.stride(0)),
            ctypes.byref(packing),
            ctypes.byref(finish),
            c_int64(x.shape[0]),
            is_wide(x),
            torch.get_num_threads(),
        )
    )
    return out
