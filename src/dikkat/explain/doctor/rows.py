"""Check rows of attention weights: they sum to one, or are zero where nothing may be attended to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from dikkat.explain.doctor.specimen import Specimen, worst
from dikkat.kernels.query_blocks import BLOCK_WEIGHTS
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation, Observer
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat_runtime.messages import msg

SHORT, LONG = 5, math.isqrt(BLOCK_WEIGHTS) + 1
"""Lengths on either side of where attention stops keeping its weights, and in half precision changes its kernel."""


def uneven_rows(specimen: Specimen) -> tuple[float, str]:
    """Measure how far rows of weights are from a sum of one, as recorded and as used, or below zero."""
    with record_attention(specimen.model) as maps, _sums_as_used(specimen.model) as sums:
        specimen.logits(specimen.source, specimen.target, specimen.mask)
    violations: dict[str, float] = {}
    for name, (weights,) in maps.items():
        recorded, used = (_of_real_tokens(rows, name, specimen.mask) for rows in (weights, sums[name]))
        label = msg("{stack} layer {layer}, {kind}").fill(msg(name.stack), name.layer, name.kind)
        violations[msg("{label}, recorded").fill(label)] = _excess(recorded)
        violations[msg("{label}, used").fill(label)] = float((used - 1.0).abs().max())
    return worst(violations)


def masked_rows_at_work(specimen: Specimen) -> tuple[float, str]:
    """Measure the output of attention for a query that may attend to nothing; infinite if a gradient is not finite."""
    return worst(
        {
            msg("{path}, {length} tokens").fill(path, length): _masked_output(module, path, length)
            for path, module in _attentions(specimen.model)
            for length in (SHORT, LONG)
        }
    )


def _masked_output(module: MultiHeadAttention, path: str, length: int) -> float:
    weight, width = next(module.parameters()), module.widths[0]
    x = torch.randn(1, length, width, device=weight.device, dtype=weight.dtype, requires_grad=True)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=weight.device)
    mask[:, :, 1] = False
    memory = torch.randn_like(x)
    output: Tensor = module(x, memory, mask=mask) if name_of(path).kind == "cross" else module(x, mask=mask)
    gradients = torch.autograd.grad(output.square().sum(), [x, *module.parameters()], allow_unused=True)
    if not all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None):
        return math.inf
    # the sum of nothing is zero, so only the bias of the output projection is left
    bias = None if isinstance(module.out_projection, nn.Identity) else module.out_projection.bias
    nothing = torch.zeros_like(output[:, 1]) if bias is None else bias
    return float((output[:, 1] - nothing).detach().abs().max())


@contextmanager
def _sums_as_used(model: nn.Module) -> Iterator[dict[MapName, Tensor]]:
    """(B, H, T, K) each, all K alike: what an attention makes of values that are all one.

    Where a path does not hold its weights, the recorded ones are the reference's; only the output shows what it used.
    """
    sums: dict[MapName, Tensor] = {}

    def summing(name: MapName, module: MultiHeadAttention) -> Observer:
        def sum_rows(seen: Observation) -> None:
            sums[name] = module.comparison(seen.query, seen.key, torch.ones_like(seen.value), seen.mask, 0.0)

        return sum_rows

    with ExitStack() as handles:
        for path, module in _attentions(model):
            handles.enter_context(module.observe(summing(name_of(path), module)))
        yield sums


def _attentions(model: nn.Module) -> list[tuple[str, MultiHeadAttention]]:
    return [(path, module) for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)]


def _of_real_tokens(rows: Tensor, name: MapName, mask: Tensor) -> Tensor:
    """Of (B, H, T, …): within a window, a padded source position may see nothing but padding."""
    # (B, H, T, …) -> (B, T, H, …)
    return rows.transpose(1, 2)[mask] if name.stack == "encoder" else rows


def _excess(weights: Tensor) -> float:
    """Of (..., S)."""
    return float(torch.maximum((weights.sum(-1) - 1.0).abs().max(), -weights.min()))
