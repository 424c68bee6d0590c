"""The parts that native calls share: the dispatch rule, the library with its argument types, addresses, answers."""

import ctypes
from collections.abc import Sequence
from ctypes import c_double, c_float, c_int, c_int64, c_void_p
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.kernels.library import library
from dikkat.kernels.switch import active
from dikkat_runtime.native.library import INDEX_ERROR

# Memory of attention heads: those of a position lie side by side, as projections leave them.


def adjacent(*tensors: Tensor) -> list[Tensor]:
    """Return memory for tensors (B, H, T, K) of one length: views of one dense buffer (B, T, sum of H x K)."""
    batch, _, length, _ = tensors[0].shape
    step = sum(tensor.shape[1] * tensor.shape[3] for tensor in tensors)
    buffer, first, views = tensors[0].new_empty(batch, length, step), 0, []
    for tensor in tensors:
        # strides by name: other ways to make the view leave those of a single position to chance
        views.append(buffer.as_strided(tensor.shape, (length * step, tensor.shape[3], step, 1), first))
        first += tensor.shape[1] * tensor.shape[3]
    return views


def is_head_contiguous(x: Float[Tensor, "B H T K"]) -> bool:
    """Tell whether entries, heads and batches follow each other as in a dense (B, T, at least H x K)."""
    batch, head, row, entry = x.stride()
    return entry == 1 and (head == x.shape[3] or x.shape[1] == 1) and (batch == x.shape[2] * row or x.shape[0] == 1)


LANES = 16
"""Float32 numbers of one vector of the kernels, as in vectors.h."""

_Strides = c_int64 * 3
_ADDRESS, _NUMBER = c_void_p, c_int64
ARGUMENTS: dict[str, tuple[type, ...]] = {
    "activate_bf16": (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_int),
    "adamw": (_ADDRESS,),
    "add_dropped": (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_float, _NUMBER, c_int, c_int),
    "attention_forward": (_ADDRESS, _ADDRESS),
    "attention_backward": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "byte_gradients": (_ADDRESS,),
    "byte_linear": (_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS, _NUMBER, c_int, c_int),
    "make_random_bits": (_ADDRESS, _NUMBER, _NUMBER, c_int),
    "pack_bytes": (_ADDRESS, c_int),
    "sampled_grad_hidden": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_int, c_int),
    "sampled_grad_weight": (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_int, c_int),
    "sampled_softmax": (
        *(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, c_float),
        *(_ADDRESS, _ADDRESS, c_int, c_int),
    ),
    "small_linear": (_ADDRESS, _ADDRESS, c_int),
    "small_linear_backward": (_ADDRESS, _ADDRESS, _ADDRESS),
    "normalize_backward": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "normalize_forward": (_ADDRESS, _ADDRESS),
    "muon": (_ADDRESS,),
    "orthogonalize": (_ADDRESS, _NUMBER, _NUMBER, _NUMBER, c_int),
    "smoothed_softmax": (*(_ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_float), *(_ADDRESS, _ADDRESS, c_int, c_int)),
    "sum_of_squares": (_ADDRESS, _NUMBER, _ADDRESS, c_int, c_int),
    "rotate": (_ADDRESS, _ADDRESS),
}
"""Argument types of kernels, so that a wrong call is refused here instead of reading foreign memory."""


def runs_native(*tensors: Tensor | None) -> bool:
    """Tell whether a kernel takes these: native is chosen, and all are on the CPU in one type, float32 or bfloat16."""
    dtype = None
    for tensor in tensors:
        if tensor is not None:
            dtype = tensor.dtype if dtype is None else dtype
            if tensor.dtype != dtype or not tensor.is_cpu:
                return False
    return (dtype == torch.float32 or dtype == torch.bfloat16) and active() == "native"


def needs_backward(*tensors: Tensor | None) -> bool:
    """Tell whether autograd records what is computed from these."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


@cache
def native_library() -> ctypes.CDLL:
    """Return the loaded kernels with their argument types. Raises `RuntimeError` where there are none."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("there are no native kernels here; ask runs_native first")
    for name, types in ARGUMENTS.items():
        getattr(loaded, name).argtypes = types
    loaded.sum_of_squares.restype = c_double
    return loaded


def check_status(code: int, indices: str = "an index", size: int = 0) -> None:
    """Turn a kernel's answer into an error.

    Raises `MemoryError` where it found no memory, and `IndexError` where one of the `indices` lies outside of 0 up to
    `size` - 1.
    """
    if code == INDEX_ERROR:
        raise IndexError(f"{indices} must lie between 0 and {size - 1}")
    if code:
        raise MemoryError("no memory left for the scratch space of a native kernel")


def index_address(indices: Tensor, shape: Sequence[int], name: str) -> int:
    """Return the address of indices. Raises `ValueError` unless they are dense int64 of that shape on the CPU."""
    if indices.shape != tuple(shape) or indices.dtype != torch.int64 or not indices.is_cpu:
        wanted = f"int64 on the CPU and have the shape {tuple(shape)}"
        raise ValueError(
            f"{name} must be {wanted}, but they are {indices.dtype} on {indices.device} and have {tuple(indices.shape)}"
        )
    if not indices.is_contiguous():
        raise ValueError(f"{name} must be contiguous; call contiguous() on them")
    return indices.data_ptr()


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's first entry; None, C's null, for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def is_float32(tensor: Tensor) -> int:
    """Return 1 for float32 and 0 for bfloat16, as kernels are told the type."""
    return int(tensor.dtype == torch.float32)


def dense_rows(tensor: Tensor) -> Tensor:
    """Return the tensor itself, or a copy where the entries of its last dimension are not adjacent."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def strides(tensor: Tensor) -> ctypes.Array[c_int64]:
    """Return the first three strides of a (B, H, T, K) tensor."""
    return _Strides(*tensor.stride()[:3])
