"""Normalisation over the last dimension, by name: layer norm and root-mean-square norm.

Both are PyTorch's, layer norm with a kernel for training, over features only, never over positions (fault F34).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import RMSNorm

from dikkat.native import norms

__all__ = ["LayerNorm", "RMSNorm", "named_norm"]


class LayerNorm(nn.LayerNorm):
    """PyTorch's, which a kernel computes where it learns in bfloat16 on a CPU; that can be differentiated once."""

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        learns = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        if learns and len(self.normalized_shape) == 1 and norms.normalizes_natively(x, self.weight, self.bias):
            return _LayerNorm.apply(x, self.weight, self.bias, self.eps)
        return super().forward(x)


_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def named_norm(name: str, model_dim: int, eps: float) -> LayerNorm | RMSNorm:
    """ "layer" (Ba et al. 2016) subtracts the mean, divides by the deviation and has weight and bias; "rms" (Zhang and
    Sennrich 2019) only divides by the root of the mean square and has a weight. Raises `ValueError` for other names.
    """
    if name not in _NORMS:
        raise ValueError(f"norm must be one of {', '.join(_NORMS)}, not {name!r}")
    return _NORMS[name](model_dim, eps=eps)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        x = x.contiguous()
        output, statistics = norms.forward(x, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, statistics)
        ctx.eps = eps
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, bias, statistics = ctx.saved_tensors
        return *norms.backward(gradient.contiguous(), x, weight, bias, statistics, ctx.eps), None
