"""Newton-Schulz iterations that move all singular values of matrices near one, for the optimizer Muon."""

from __future__ import annotations

from ctypes import c_int64

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.kernels.calls import address, check_status, native_library, runs_native
from dikkat.kernels.processor import has_fast_bfloat16, has_fast_int8

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of x, (x x^T) x and (x x^T)^2 x (Jordan et al. 2024)."""
STEPS = 5


def orthogonalize(matrices: Float[Tensor, "N A B"]) -> Float[Tensor, "N A B"]:
    """Bring the singular values of every matrix into about [0.7, 1.2], by five steps (Jordan et al. 2024).

    Products are in eight bits with exact diagonals where the processor is fast at that: 1 to 3 % of the norm away
    from exact ones. Else they are in bfloat16 where it is fast, as on a GPU, 1 to 17 % away, the more the quicker
    singular values fall; else in float32.
    """
    if not (has_fast_int8() and runs_native(matrices)):
        is_fast = matrices.device.type != "cpu" or has_fast_bfloat16()
        return orthogonalize_reference(matrices, torch.bfloat16 if is_fast else torch.float32)
    output = matrices.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    call = native_library().orthogonalize
    check_status(call(address(output), *map(c_int64, output.shape), torch.get_num_threads()))
    return output.to(matrices.dtype)


def orthogonalize_reference(matrices: Float[Tensor, "N A B"], dtype: torch.dtype) -> Float[Tensor, "N A B"]:
    """Compute the published iteration with products in `dtype`; wide matrices have the smaller Gram matrix."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(dtype)
    for _ in range(STEPS):
        gram = x @ x.mT
        # a x + (b gram + c gram^2) x
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)
