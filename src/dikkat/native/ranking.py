"""The native ranking of logits over tensors: the same as decoding/ranking.py finds with PyTorch."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor

from dikkat.native.library import library


def runs_natively(values: Tensor) -> bool:
    """Whether the kernels read such values: rows of float32 on the CPU, one behind the other."""
    return values.dtype == torch.float32 and values.is_cpu and values.is_contiguous() and library() is not None


def top(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest of each row (N, M) and where they stand, (N, k) each, the lowest index first among equals."""
    rows, width = values.shape
    found, places = torch.empty(rows, k), torch.empty(rows, k, dtype=torch.int64)
    size = c_int64(rows), c_int64(width), c_int64(k)
    _library().top_entries(_address(values), *size, _address(found), _address(places), _threads())
    return found, places


def normalizers(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
    rows, width = logits.shape
    largest, log_sums = torch.empty(rows, 1), torch.empty(rows, 1)
    size = c_int64(rows), c_int64(width)
    _library().normalizers(_address(logits), *size, _address(largest), _address(log_sums), _threads())
    return largest, log_sums


def _library() -> ctypes.CDLL:
    loaded = library()
    if loaded is None:
        raise RuntimeError("the native ranking is not here; ask runs_natively first")
    return loaded


def _threads() -> c_int64:
    return c_int64(torch.get_num_threads())


def _address(tensor: Tensor) -> c_void_p:
    return c_void_p(tensor.data_ptr())
