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


class _Finish(ctypes.Structure):
    """`Finish` of quantized.h; whether it streams is up to the kernel."""

    _fields_ = (("bias", c_void_p), ("gate", c_void_p), ("rectifies", ctypes.c_int), ("streams", ctypes.c_int))


def pack(weight: Tensor, *, columns: bool = False) -> PackedWeights:
    """Of (outputs, inputs), or with `columns` of (inputs, outputs), in float32 or bfloat16."""
    weight = weight.detach()
    if not runs_natively(weight):
        return PackedWeights(*twin.pack(weight.T if columns else weight))
    packed, packing, _kept = _to_be_packed(weight, columns)
    checked(native_library().pack_bytes(ctypes.byref(packing), torch.get_num_threads()))
    return packed


def packed_linear(x: Tensor, packed: PackedWeights, out: Tensor) -> Tensor:
    """(rows, inputs) times packed weights, into a dense `out` (rows, outputs) of the same type.

    Each row is rounded to eight bits with a scale of its own, and the sums are exact: a row has the same bits in any
    company.
    """
    if not runs_natively(x, out):
        return out.copy_(twin.linear(x, packed.weight, packed.scale, out.shape[1], None))
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
    _packed, packing, _kept = _to_be_packed(weight, columns)
    finish = _Finish(address(bias), address(gate), rectifies)
    return _multiplied(x, packing, finish, x.new_empty(x.shape[0], weight.shape[columns]))


def weight_gradient(
    gradient: Tensor, x: Tensor, found: Tensor | None = None, of_bias: Tensor | None = None, *, with_bias: bool
) -> tuple[Tensor, Tensor | None]:
    """(rows, outputs)^T times (rows, inputs): (outputs, inputs) in the type of both; and the gradient's sum over rows.

    Columns are rounded to eight bits with a scale for each 256 rows; the sums of these are exact, and added in float32,
    as is the gradient itself, which is not rounded for its own sum. Dense tensors `found` and `of_bias`, where they are
    given, are filled and returned.
    """
    found = x.new_empty(gradient.shape[1], x.shape[1]) if found is None else found
    of_bias = x.new_empty(gradient.shape[1]) if of_bias is None and with_bias else of_bias
    if not runs_natively(gradient, x, found):
        sums = None if of_bias is None else of_bias.copy_(gradient.sum(0, dtype=torch.float32))
        return found.copy_(twin.weight_gradient(gradient, x)), sums
    gradient, x = (each if each.stride(1) == 1 else each.contiguous() for each in (gradient, x))
    checked(
        native_library().byte_gradient(
            address(found),
            address(of_bias),
            address(gradient),
            c_int64(gradient.stride(0)),
            address(x),
            c_int64(x.stride(0)),
            *map(c_int64, (x.shape[0], *found.shape)),
            is_wide(x),
            torch.get_num_threads(),
        )
    )
    return found, of_bias


def _to_be_packed(weight: Tensor, columns: bool) -> tuple[PackedWeights, _Packing, Tensor]:
    """Room for packed weights, how to fill it, and what must live until that is done."""
    weight = weight if weight.stride(1) == 1 else weight.contiguous()
    outputs, inputs = weight.shape[::-1] if columns else weight.shape
    panels, quads = -(-outputs // PANEL), -(-inputs // LANES) * (LANES // QUAD)
    packed = PackedWeights(
        torch.empty(panels, quads, PANEL, QUAD, dtype=torch.int8),
        torch.empty(panels * PANEL),
        torch.empty(panels * PANEL, dtype=torch.int32),
    )
    addresses = map(address, (packed.weight, packed.scale, packed.shift, weight))
    return packed, _Packing(*addresses, weight.stride(0), outputs, inputs, columns, is_wide(weight)), weight


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
