"""Matrices with all singular values moved near one, natively in eight bits."""

from __future__ import annotations

from ctypes import c_int64

import torch
from torch import Tensor

from dikkat.native.calls import address, checked, native_library
from dikkat.native.kernels import runs_natively
from dikkat.native.processor import has_fast_bfloat16, has_fast_int8


def orthogonalized(matrices: Tensor) -> Tensor:
    """(N, A, B): five Newton-Schulz steps (Jordan et al. 2024), which bring singular values into about [0.7, 1.2].

    Products are in eight bits beside exact diagonals where the processor is fast at that: 1 to 3 % of the norm away
    from exact ones. Else they are in bfloat16 where it is fast, 1 to 17 % away, the more the quicker singular values
    fall; else in float32.
    """
    if not (has_fast_int8() and runs_natively(matrices)):
        return _by_torch(matrices)
    found = matrices.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    call = native_library().orthogonalize
    checked(call(address(found), *map(c_int64, found.shape), torch.get_num_threads()))
    return found.to(matrices.dtype)


def _by_torch(matrices: Tensor) -> Tensor:
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if tall else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(torch.bfloat16 if has_fast_bfloat16() else torch.float32)
    for _ in range(5):
        gram = x @ x.transpose(-2, -1)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.transpose(-2, -1) if tall else x).to(matrices.dtype)
