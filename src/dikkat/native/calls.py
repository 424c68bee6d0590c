"""What every call of a native kernel needs: the library, addresses, and what its answer says."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p

import torch
from torch import Tensor

from dikkat.native.library import library


def native_library(ask: str = "runs_natively") -> ctypes.CDLL:
    """The library. Raises `RuntimeError` where there is none, naming the function that would have said so."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"there is no native code here; ask {ask} first")
    return loaded


def checked(code: int) -> None:
    """Raises `MemoryError` for the answer of a kernel that found no memory."""
    if code:
        raise MemoryError("no memory left for the scratch space of a native kernel")


def address(tensor: Tensor | None) -> c_void_p | None:
    """Where its entries lie, as an argument."""
    return None if tensor is None else c_void_p(tensor.data_ptr())


def is_wide(tensor: Tensor) -> int:
    """How kernels call float32, beside bfloat16."""
    return int(tensor.dtype == torch.float32)
