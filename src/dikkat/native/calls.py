"""What every call of a native kernel needs: the library, addresses, and what its answer says."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p

import torch
from torch import Tensor

from dikkat.native.library import library

OUTSIDE = 2
"""What a kernel answers where an index lies outside, as in indices.h."""


def native_library(ask: str = "runs_natively") -> ctypes.CDLL:
    """The library. Raises `RuntimeError` where there is none, naming the function that would have said so."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"there is no native code here; ask {ask} first")
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
