"""Linear layers: exact or in eight bits, and in either form by the kernel that is there."""

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.kernels import batch_invariant
from dikkat.kernels.calls import LANES, address, check_status, native_library, needs_backward, runs_native
from dikkat.kernels.gpu import linear as gpu
from dikkat.kernels.gpu.choice import runs_triton
from dikkat.kernels.int8_linear import int8_linear

# Linear layers with few weights in training: native products over float32 tensors, read as they lie in memory.
#
# Their PyTorch twin is `batch_invariant.linear`, which differs in the order of its sums.

MAX_WEIGHTS = 1 << 14
"""A larger matrix does not stay in the first cache, and PyTorch's own products are faster."""


def is_small(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Tell whether the kernel takes these: in training, float32, few weights, and widths that are multiples of 16."""
    if weight.dtype != torch.float32 or weight.numel() > MAX_WEIGHTS or any(width % LANES for width in weight.shape):
        return False
    return needs_backward(x, weight, bias) and runs_native(x, weight)


def small_linear(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None, *, relu: bool = False
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
    check_status(native_library().small_linear_backward(ctypes.byref(job), address(gradient), ctypes.byref(outputs)))
    return gradients[0], gradients[1], gradients[2]


def _job(x: Tensor, weight: Tensor, bias: Tensor | None, rectified: Tensor | None = None) -> _SmallLinearStruct:
    addresses = map(address, (x, weight, bias, rectified))
    return _SmallLinearStruct(*x.shape, weight.shape[0], *addresses, torch.get_num_threads())


# Several projections computed as one: split on the way forward, and not put together on the way back.


def split_heads(x: Float[Tensor, "B T E"], heads: Sequence[int], width: int) -> tuple[Float[Tensor, "B _ T K"], ...]:
    """Split the last dimension of `x` into views of these numbers of `heads`, each of `width` K.

    Gradients that are views of one `adjacent` buffer, as those of our attention, become the gradient of `x` as they
    are; others are copied together.
    """
    if not (needs_backward(x) and (runs_triton(x) or runs_native(x))):
        return _Split.forward(None, x, heads, width)
    parts: tuple[Tensor, ...] = _Split.apply(x, heads, width)
    return parts


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: Sequence[int], width: int) -> tuple[Tensor, ...]:
        # (B, T, E) -> (B, T, E / K, K) -> (B, E / K, T, K)
        return x.unflatten(-1, (-1, width)).transpose(1, 2).split(list(heads), dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        whole = None if torch.is_grad_enabled() else _common_buffer(gradients)
        if whole is None:
            # (B, H, T, K) -> (B, T, H * K)
            whole = torch.cat([gradient.transpose(1, 2).flatten(2) for gradient in gradients], dim=-1)
        return whole, None, None


def _common_buffer(parts: Sequence[Tensor]) -> Tensor | None:
    """Return the tensor (B, T, E) whose heads `parts` are, one after the other as `adjacent` lays them out, or None."""
    buffer, length, width = parts[0]._base, *parts[0].shape[2:]
    entries = width * sum(part.shape[1] for part in parts)
    if buffer is None or buffer.shape != (parts[0].shape[0], length, entries) or not buffer.is_contiguous():
        return None
    first, strides = 0, (length * entries, width, entries, 1)
    for part in parts:
        if part._base is not buffer or part.storage_offset() != first or part.stride() != strides:
            return None
        first += part.shape[1] * width
    return buffer


Products = Literal["exact", "int8"]
"""How matrix products are computed: in the type of their factors, or of factors rounded to eight bits."""


def linear(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "E D"],
    bias: Float[Tensor, "E"] | None = None,
    *,
    rows: slice | None = None,
    relu: bool = False,
    products: Products = "exact",
) -> Float[Tensor, "*rows R"]:
    """Compute `x weight^T + bias`, and with `relu` its ReLU; `rows` takes these rows of weight and bias alone.

    An exact product of one position, as in a step of decoding, is the fastest there is; a longer sequence is rounded
    alike whatever its length, see `batch_invariant`.
    """
    if products == "int8":
        return int8_linear(x, weight, bias, rows=rows, relu=relu)
    if bias is not None and gpu.takes(x, weight, bias):
        return gpu.trained_linear(x, weight, bias, rows=rows, relu=relu)
    if rows is not None:
        weight, bias = weight[rows], None if bias is None else bias[rows]
    if is_small(x, weight, bias):
        return small_linear(x, weight, bias, relu=relu)
    output = batch_invariant.linear(x, weight, bias)
    return F.relu(output) if relu else output
