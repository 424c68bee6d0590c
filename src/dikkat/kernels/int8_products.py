"""Products in eight bits: weights packed as the native kernels read them, and products with such weights.

Every product has a twin of the name `…_reference`, which gives the same by PyTorch.
"""

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels.calls import address, check_status, dense_rows, is_float32, native_library, runs_native
from dikkat_runtime.native.library import Packing

PANEL, QUAD, LANES = 64, 4, 16
"""Outputs of a panel, inputs side by side in it, and entries that rows are padded to, as in byte_parts.h."""
SHIFT = 128
MAX_VALUE = 127
BLOCK_ROWS = 256
"""Rows that share the scale of a column, at most, as in byte_gradient.c."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedWeights:
    """Eight-bit integers with one scale for each output: the weight is about integer x scale (its largest is 127)."""

    weight: Tensor
    """int8, (outputs / 64, inputs / 4, 64, 4), filled up with zeros."""
    scale: Tensor
    """float32, (outputs), in whole panels; NaN where a weight of the output is not finite."""
    shift: Tensor
    """int32, (outputs), in whole panels: the sum of the integers of an output, times 128."""


class _Backward(ctypes.Structure):
    """`Backward` of byte_gradient.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("grad_x", "grad_weight", "grad_bias", "gradient", "x")),
        *((name, c_int64) for name in ("gradient_step", "x_step", "rows", "outputs", "inputs")),
        ("relu_output", c_void_p),
        ("weights", Packing),
        *((name, c_int64) for name in ("is_float32", "threads")),
    )


class _Epilogue(ctypes.Structure):
    """`Epilogue` of byte_parts.h; whether it streams is up to the kernel."""

    _fields_ = (("bias", c_void_p), ("relu_output", c_void_p), ("relu", ctypes.c_int), ("streams", ctypes.c_int))


def pack(weight: Tensor, *, columns: bool = False) -> PackedWeights:
    """Pack a float32 or bfloat16 weight (outputs, inputs), or with `columns` (inputs, outputs)."""
    weight = dense_rows(weight.detach())
    if not runs_native(weight):
        return PackedWeights(*pack_reference(weight.T if columns else weight))
    outputs, inputs = weight.shape[::-1] if columns else weight.shape
    panels, quads = -(-outputs // PANEL), -(-inputs // LANES) * (LANES // QUAD)
    packed = PackedWeights(
        torch.empty(panels, quads, PANEL, QUAD, dtype=torch.int8),
        torch.empty(panels * PANEL),
        torch.empty(panels * PANEL, dtype=torch.int32),
    )
    packing = _packing(weight, columns, packed.weight, packed.scale, packed.shift)
    check_status(native_library().pack_bytes(ctypes.byref(packing), torch.get_num_threads()))
    return packed


def packed_product(x: Tensor, packed: PackedWeights, out: Tensor) -> Tensor:
    """Multiply (rows, inputs) by packed weights into a dense `out` (rows, outputs) of the same type, and return it.

    Each row is rounded to eight bits with a scale of its own, and the sums are exact: a row has the same bits in any
    company. Raises `ValueError` for sizes that do not belong together.
    """
    if not runs_native(x, out):
        return out.copy_(packed_product_reference(x, packed.weight, packed.scale, out.shape[1], None))
    panels, quads = -(-out.shape[1] // PANEL), -(-x.shape[1] // LANES) * (LANES // QUAD)
    if packed.weight.shape[:2] != (panels, quads) or len(x) != len(out) or not out.is_contiguous():
        raise ValueError(
            f"{tuple(packed.weight.shape)} packed weights do not turn {tuple(x.shape)} into {tuple(out.shape)}"
        )
    parts = (packed.weight, packed.scale, packed.shift)
    packing = Packing(*map(address, parts), None, 0, out.shape[1], x.shape[1])
    return _multiply(dense_rows(x), packing, _Epilogue(), out)


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    columns: bool = False,
    relu: bool = False,
    relu_output: Tensor | None = None,
) -> Tensor:
    """Multiply (*rows, inputs) by a weight (outputs, inputs), or with `columns` (inputs, outputs), packed on the way.

    `relu` takes the ReLU of the sum with `bias`. With a `relu_output` (*rows, outputs) the result is zero where that is
    not above zero, as the gradient after a ReLU is.
    """
    if not runs_native(x, weight, bias, relu_output):
        packed = pack(weight, columns=columns)
        output = packed_product_reference(_rows(x), packed.weight, packed.scale, weight.shape[columns], bias)
        output = (output.relu() if relu else output).view(*x.shape[:-1], -1)
        return output if relu_output is None else torch.ops.aten.threshold_backward(output, relu_output, 0.0)
    weight, relu_output = dense_rows(weight), None if relu_output is None else relu_output.contiguous()
    epilogue = _Epilogue(address(bias), address(relu_output), relu)
    return _multiply(_rows(x), _packing(weight, columns), epilogue, x.new_empty(*x.shape[:-1], weight.shape[columns]))


def gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    weight_out: Tensor | None = None,
    bias_out: Tensor | None = None,
    *,
    with_bias: bool,
    relu_output: Tensor | None = None,
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Compute what flows back, from a gradient (*rows, outputs), through `product` of x (*rows, inputs) and a weight.

    To x, if there is a weight (outputs, inputs), it is `product` with columns and the `relu_output`; to the weight,
    gradient^T times x, in the type of both; and to the bias. Columns are rounded to eight bits with a scale for each
    block of some 256 rows; the sums of these are exact, and added in float32, as is the gradient itself, which is not
    rounded for its own sum. Dense tensors `weight_out` and `bias_out`, where they are given, are filled and returned.
    """
    grad_weight = x.new_empty(gradient.shape[-1], x.shape[-1]) if weight_out is None else weight_out
    grad_bias = x.new_empty(gradient.shape[-1]) if bias_out is None and with_bias else bias_out
    if not runs_native(gradient, x, grad_weight, weight, relu_output):
        grad_x = None if weight is None else product(gradient, weight, columns=True, relu_output=relu_output)
        gradient, x = _rows(gradient), _rows(x)
        sums = None if grad_bias is None else grad_bias.copy_(gradient.sum(0, dtype=torch.float32))
        return grad_x, grad_weight.copy_(weight_gradient_reference(gradient, x)), sums
    grad_x, packing = None, Packing()
    if weight is not None:
        weight, grad_x = dense_rows(weight), x.new_empty(x.shape)
        packing = _packing(weight, True)
    gradient, x, relu_output = _rows(gradient), _rows(x), None if relu_output is None else relu_output.contiguous()
    addresses = map(address, (grad_x, grad_weight, grad_bias, gradient, x))
    sizes = gradient.stride(0), x.stride(0), x.shape[0], *grad_weight.shape
    job = _Backward(*addresses, *sizes, address(relu_output), packing, is_float32(x), torch.get_num_threads())
    check_status(native_library().byte_gradients(ctypes.byref(job)))
    return grad_x, grad_weight, grad_bias


def _rows(x: Tensor) -> Tensor:
    """Return all rows below each other, their entries adjacent."""
    return dense_rows(x.reshape(-1, x.shape[-1]))


def _packing(weight: Tensor, columns: bool, *memory: Tensor) -> Packing:
    """Return the structure of a weight with dense rows to be packed into `memory`, by default that of the call."""
    outputs, inputs = weight.shape[::-1] if columns else weight.shape
    addresses = map(address, (*(memory or (None, None, None)), weight))
    return Packing(*addresses, weight.stride(0), outputs, inputs, columns, is_float32(weight))


def _multiply(x: Tensor, packing: Packing, epilogue: _Epilogue, out: Tensor) -> Tensor:
    pointers, sizes = (ctypes.byref(packing), ctypes.byref(epilogue)), (x.shape[0], is_float32(x))
    call = native_library().byte_linear
    check_status(call(address(out), address(x), x.stride(0), *pointers, *sizes, torch.get_num_threads()))
    return out


# The PyTorch twins.


def pack_reference(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the fields of `PackedWeights` from a weight (outputs, inputs)."""
    outputs, inputs = weight.shape
    weight = F.pad(weight.float(), (0, -inputs % LANES, 0, -outputs % PANEL))
    integers, scale = _rounded(weight)
    integers = integers.nan_to_num(0.0).to(torch.int8)
    # (outputs, inputs) -> (panels, 64, quads, 4) -> (panels, quads, 64, 4)
    panels = integers.reshape(-1, PANEL, integers.shape[1] // QUAD, QUAD).transpose(1, 2).contiguous()
    return panels, scale[:, 0], SHIFT * integers.sum(dim=1, dtype=torch.int32)


def packed_product_reference(x: Tensor, weight: Tensor, scale: Tensor, outputs: int, bias: Tensor | None) -> Tensor:
    """Multiply (rows, inputs) by packed weights and add `bias`; PyTorch's product of bytes is exact in 32 bits."""
    # (panels, quads, 64, 4) -> (outputs, inputs)
    rows, scale = weight.transpose(1, 2).flatten(2).flatten(0, 1)[:outputs, : x.shape[1]], scale[:outputs]
    integers, row_scale = _rounded(x.float())
    output = torch._int_mm(integers.to(torch.int8), rows.T).float().mul_(row_scale)
    return (output.mul_(scale) if bias is None else torch.addcmul(bias, output, scale)).to(x.dtype)


def weight_gradient_reference(gradient: Tensor, x: Tensor) -> Tensor:
    """Multiply (rows, outputs)^T by (rows, inputs), columns rounded in blocks of rows."""
    total = torch.zeros(gradient.shape[1], x.shape[1], device=x.device)
    size = rows_of_block(x.shape[0])
    for start in range(0, x.shape[0], size):
        block = slice(start, start + size)
        (a, a_scale), (b, b_scale) = _rounded(gradient[block].float().T), _rounded(x[block].float().T)
        total += torch._int_mm(a.to(torch.int8), b.T.to(torch.int8)).float() * (a_scale * b_scale.T)
    return total.to(x.dtype)


def rows_of_block(rows: int) -> int:
    """Return the rows of a block: as equal as fours allow, with an even number of blocks for two threads."""
    blocks = 1 if rows <= BLOCK_ROWS else 2 * -(-rows // (2 * BLOCK_ROWS))
    return max(QUAD, -(-rows // (blocks * QUAD)) * QUAD)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Round float32 rows (N, M); returns integers and scales (N, 1), NaN where an entry is not finite."""
    scale = rows.abs().amax(dim=1, keepdim=True).div_(MAX_VALUE)
    # infinity times zero is not a number either
    scale.add_(scale, alpha=0.0)
    # zero of what is too small to be divided by
    share = F.threshold(scale, torch.finfo(torch.float32).tiny, torch.inf).reciprocal_()
    return (rows * share).round_(), scale
