"""Activations: PyTorch's, or of bfloat16 numbers a kernel that reads and writes each of them once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dikkat.kernels.calls import address, native_library, runs_native
from dikkat_runtime.native.library import ACTIVATIONS


def activate(name: str, x: Tensor) -> Tensor:
    """Compute "gelu", "gelu_tanh" or "silu"; that of bfloat16 numbers on a CPU is differentiable once."""
    if x.dtype == torch.bfloat16 and runs_native(x):
        output: Tensor = _Activation.apply(x, ACTIVATIONS[name])
        return output
    return F.silu(x) if name == "silu" else F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")


class _Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, number: int) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.number = number
        return _activated(x, None, number)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _activated(ctx.saved_tensors[0], gradient.contiguous(), ctx.number), None


def _activated(x: Tensor, gradient: Tensor | None, number: int) -> Tensor:
    output = torch.empty_like(x)
    native_library().activate_bf16(*map(address, (output, x, gradient)), x.numel(), number, torch.get_num_threads())
    return output
