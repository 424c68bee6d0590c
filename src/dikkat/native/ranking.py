"""The native ranking of logits over tensors: the same as decoding/ranking.py finds with PyTorch."""

from __future__ import annotations

from ctypes import c_int64

import torch
from torch import Tensor

from dikkat.native.calls import address, native_library
from dikkat.native.library import library


def runs_natively(values: Tensor) -> bool:
    """Whether the kernels read such values: rows of float32 on the CPU, one behind the other."""
    return values.dtype == torch.float32 and values.is_cpu and values.is_contiguous() and library() is not None


def top(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest of each row (N, M) and where they stand, (N, k) each, the lowest index first among equals."""
    rows, width = values.shape
    if not 1 <= k <= width:
        raise ValueError(f"a row of {width} entries has no {k} largest")
    found, places = torch.empty(rows, k), torch.empty(rows, k, dtype=torch.int64)
    size = c_int64(rows), c_int64(width), c_int64(k)
    native_library().top_entries(address(values), *size, address(found), address(places), _threads())
    return found, places


def normalizers(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
    rows, width = logits.shape
    largest, log_sums = torch.empty(rows, 1), torch.empty(rows, 1)
    size = c_int64(rows), c_int64(width)
    native_library().normalizers(address(logits), *size, address(largest), address(log_sums), _threads())
    return largest, log_sums


def _threads() -> c_int64:
    return c_int64(torch.get_num_threads())
