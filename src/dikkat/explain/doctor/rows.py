"""Rows of attention weights: those that may look somewhere sum to one, those that may not give zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dikkat.explain.doctor.specimen import Specimen, worst
from dikkat.nn.attention import MultiHeadAttention
from dikkat.nn.functional import EXPLICIT_LIMIT
from dikkat.nn.recorder import name_of, record_attention

SHORT, LONG = 5, math.isqrt(EXPLICIT_LIMIT) + 1
"""Lengths on either side of where attention changes from two products to PyTorch's fused kernel."""


def uneven_rows(specimen: Specimen) -> tuple[float, str]:
    """How far a row of recorded weights is from summing to one, or a weight is below zero."""
    with record_attention(specimen.model) as maps:
        specimen.logits(specimen.source, specimen.target, specimen.mask)
    found = {}
    for name, (weights,) in maps.items():
        # (B, H, T, S) -> (B, T, H, S); within a window, a padded source position may see nothing but padding
        rows = weights.transpose(1, 2)
        rows = rows[specimen.mask] if name.stack == "encoder" else rows
        found[f"{name.stack} layer {name.layer}, {name.kind}"] = _excess(rows)
    return worst(found)


def masked_rows_at_work(specimen: Specimen) -> tuple[float, str]:
    """What an attention gives for a query that may attend to nothing; infinite when a gradient is not finite."""
    attentions = [
        (path, module) for path, module in specimen.model.named_modules() if isinstance(module, MultiHeadAttention)
    ]
    return worst(
        {
            f"{path}, {length} tokens": _masked_output(module, path, length)
            for path, module in attentions
            for length in (SHORT, LONG)
        }
    )


def _masked_output(module: MultiHeadAttention, path: str, length: int) -> float:
    weight = module.out_projection.weight
    width = weight.shape[0]
    x = torch.randn(1, length, width, device=weight.device, dtype=weight.dtype, requires_grad=True)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=weight.device)
    mask[:, :, 1] = False
    memory = torch.randn_like(x)
    output: Tensor = module(x, memory, mask=mask) if name_of(path).kind == "cross" else module(x, mask=mask)
    gradients = torch.autograd.grad(output.square().sum(), [x, *module.parameters()], allow_unused=True)
    if not all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None):
        return math.inf
    # the sum of nothing is zero, so only the bias of the output projection is left
    bias = module.out_projection.bias
    nothing = torch.zeros_like(output[:, 1]) if bias is None else bias
    return float((output[:, 1] - nothing).detach().abs().max())


def _excess(weights: Tensor) -> float:
    """Of (..., S)."""
    return float(torch.maximum((weights.sum(-1) - 1.0).abs().max(), -weights.min()))
