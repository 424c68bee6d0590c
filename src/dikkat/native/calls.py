"""What every call of a native kernel needs: the library, addresses, and what its answer says."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_double, c_float, c_int, c_int64, c_void_p
from functools import cache

import torch
from torch import Tensor

from dikkat.native.library import library

OUTSIDE = 2
"""What a kernel answers where an index lies outside, as in indices.h."""


_ADDRESS, _NUMBER = c_void_p, c_int64
ARGUMENTS: dict[str, tuple[type, ...]] = {
    "adamw": (_ADDRESS,),
    "add_dropped": (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_float, _NUMBER, c_int, c_int),
    "attention_backward": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "attention_forward": (_ADDRESS, _ADDRESS),
    "byte_gradients": (_ADDRESS,),
    "byte_linear": (_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS, _NUMBER, c_int, c_int),
    "draw_levels": (_ADDRESS, _NUMBER, _NUMBER, c_int),
    "drawn_of_hidden": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_int, c_int),
    "drawn_of_weight": (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_int, c_int),
    "drawn_softmax": (
        *(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, c_float),
        *(_ADDRESS, _ADDRESS, c_int, c_int),
    ),
    "narrow_linear": (_ADDRESS, _ADDRESS, c_int),
    "narrow_linear_backward": (_ADDRESS, _ADDRESS, _ADDRESS),
    "normalize_backward": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "normalize_forward": (_ADDRESS, _ADDRESS),
    "normalizers": (_ADDRESS, _NUMBER, _NUMBER, _ADDRESS, _ADDRESS, _NUMBER),
    "orthogonalize": (_ADDRESS, _NUMBER, _NUMBER, _NUMBER, c_int),
    "pack_bytes": (_ADDRESS, c_int),
    "smoothed_softmax": (
        *(_ADDRESS, _ADDRESS, _NUMBER, _NUMBER, c_float),
        *(_ADDRESS, _ADDRESS, c_int, c_int),
    ),
    "sum_of_squares": (_ADDRESS, _NUMBER, _ADDRESS, c_int, c_int),
    "top_entries": (_ADDRESS, _NUMBER, _NUMBER, _NUMBER, _ADDRESS, _ADDRESS, _NUMBER),
    "turn": (_ADDRESS, _ADDRESS),
}
"""Types of the arguments, so that a wrong call is refused here instead of reading foreign memory."""


@cache
def _declare(loaded: ctypes.CDLL) -> None:
    for name, types in ARGUMENTS.items():
        getattr(loaded, name).argtypes = types
    loaded.sum_of_squares.restype = c_double


def native_library(ask: str = "runs_natively") -> ctypes.CDLL:
    """The library. Raises `RuntimeError` where there is none, naming the function that would have said so."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"there is no native code here; ask {ask} first")
    _declare(loaded)
    return loaded


def checked(code: int, indices: str = "an index", size: int = 0) -> None:
    """Raises `MemoryError` for the answer of a kernel that found no memory, and `IndexError` for that of one that found
    one of the `indices` to be outside of what has that `size`.
    """
    if code == OUTSIDE:
        raise IndexError(f"{indices} must lie between 0 and {size - 1}")
    if code:
        raise MemoryError("no memory left for the scratch space of a native kernel")


def index_address(indices: Tensor, shape: Sequence[int], name: str) -> c_void_p:
    """Where dense indices lie, as an argument. Raises `ValueError` unless they are int64 on the CPU, of that shape."""
    if indices.shape != tuple(shape) or indices.dtype != torch.int64 or not indices.is_cpu:
        wanted = f"int64 on the CPU and have the shape {tuple(shape)}"
        raise ValueError(
            f"{name} must be {wanted}, but they are {indices.dtype} on {indices.device} and have {tuple(indices.shape)}"
        )
    if not indices.is_contiguous():
        raise ValueError(f"{name} must lie one behind the other; make them contiguous()")
    return c_void_p(indices.data_ptr())


def address(tensor: Tensor | None) -> c_void_p | None:
    """Where its entries lie, as an argument."""
    return None if tensor is None else c_void_p(tensor.data_ptr())


def is_wide(tensor: Tensor) -> int:
    """How kernels call float32, beside bfloat16."""
    return int(tensor.dtype == torch.float32)
