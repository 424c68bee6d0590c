"""Attention as explicit products with a backward pass of its own: the fastest form on a CPU.

Half of what autograd would do here is copies and casts of small tensors; written out, each pass happens once. Where
the native kernels are, one call does all of it, a head at a time in cache. Weights that are too many to be kept are
computed again on the way back, as in FlashAttention (Dao et al. 2022, section 3.1).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dikkat.native import kernels
from dikkat.nn.draws import random_levels
from dikkat.nn.dropout import drop_threshold, mask_of
from dikkat.nn.few_rows import POSITIONS, lengthened
from dikkat.nn.query_blocks import fits, in_query_blocks, learns
from dikkat.nn.rotary import Rotation, both_turned

REMEMBERED = 1 << 22
"""Weights of a whole batch, at most, that native code keeps for the way back: more are sooner computed again."""


def explicit_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None,
    beta: float,
    dropout: float,
    *,
    rotation: Rotation | None = None,
    with_weights: bool = False,
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T S"] | None]:
    """`softmax(beta q k^T) v` with products in the type of the inputs and weights in at least float32.

    A `rotation` turns queries and keys, which then have one length, before they are compared.

    Returns the output and, `with_weights`, the weights it was computed with, before dropout, outside the graph; they
    are None where half precision has rounded the scores, and kept for the backward pass: not to be written to. Rows
    that may attend to nothing give zero. Differentiable once.
    """
    learning = learns(query, key, value)
    if rotation is not None and not (kernels.runs_natively(query, key, value) and rotation.runs_natively(query)):
        (query, key), rotation = both_turned(rotation, query, key), None
    if kernels.runs_natively(query, key, value):
        kept = with_weights or (learning and weights_of(query, key) <= REMEMBERED)
        angles = (None, None) if rotation is None else rotation
        return _applied(_NativeAttention, query, key, value, mask, beta, dropout, kept, *angles)
    if not fits(query, key):
        return _in_blocks(query, key, value, mask, beta, dropout, with_weights, learning)
    targets, sources = query.shape[2], key.shape[2]
    if dropout == 0.0:
        query, key, value, mask, _ = lengthened(query, key, value, mask)
    output, weights = _applied(_ExplicitAttention, query, key, value, mask, beta, dropout, with_weights)
    return output[:, :, :targets], None if weights is None else weights[:, :, :targets, :sources]


def weights_of(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"]) -> int:
    """How many there are: B * H * T * S."""
    return query[..., 0].numel() * key.shape[2]


def _in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    dropout: float,
    with_weights: bool,
    learning: bool,
) -> tuple[Tensor, Tensor | None]:
    weights: list[Tensor] = []

    def attend(rows: Tensor, allowed: Tensor | None) -> Tensor:
        output, used = _applied(_ExplicitAttention, rows, key, value, allowed, beta, dropout, with_weights)
        weights.extend(() if used is None else (used,))
        return output

    output = in_query_blocks(attend, query, key, mask, learning=learning and not with_weights)
    return output, torch.cat(weights, dim=2) if weights else None


def _applied(
    form: type[_NativeAttention] | type[_ExplicitAttention],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    beta: float,
    dropout: float,
    with_weights: bool,
    *angles: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    levels = random_levels(query.new_empty(*query.shape[:3], key.shape[2])) if dropout > 0.0 else None
    output, weights = form.apply(query, key, value, mask, beta, levels, drop_threshold(dropout), with_weights, *angles)
    return output, weights


class _NativeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        beta: float,
        levels: Tensor | None,
        threshold: int,
        keep: bool,
        table: Tensor | None,
        places: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        output, weights = kernels.attention_forward(
            query, key, value, mask, beta, levels, threshold, table, places, keep_weights=keep
        )
        ctx.save_for_backward(query, key, value, mask, weights, levels, table, places)
        ctx.beta, ctx.threshold = beta, threshold
        if weights is not None:
            ctx.mark_non_differentiable(weights)
        ctx.set_materialize_grads(False)
        return output, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, _of_weights: None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return (None,) * 10
        query, key, value, mask, weights, levels, *angles = ctx.saved_tensors
        found = kernels.attention_backward(
            gradient, query, key, value, mask, weights, ctx.beta, levels, ctx.threshold, *angles
        )
        return *found, *(None,) * 7


class _ExplicitAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        beta: float,
        levels: Tensor | None,
        threshold: int,
        with_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        # (B, H, T, K) -> (B * H, T, K): one copy each, reused by the backward pass
        q, k, v = query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1)
        by_head = _weights(torch.bmm(q, k.transpose(1, 2)).view(*query.shape[:3], -1), mask, beta)
        weights = by_head.flatten(0, 1)
        used = weights.to(value.dtype)
        kept = None if levels is None else mask_of(levels, threshold, used.dtype).flatten(0, 1)
        if kept is not None:
            used = used * kept
        ctx.save_for_backward(q, k, v, weights, used, kept)
        ctx.beta = beta
        output = torch.bmm(used, v).view(*query.shape[:3], -1)
        if not with_weights or by_head.dtype != query.dtype:
            return output, None
        ctx.mark_non_differentiable(by_head)
        ctx.set_materialize_grads(False)
        return output, by_head

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, _of_weights: None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return (None,) * 8
        q, k, v, weights, used, kept = ctx.saved_tensors
        shape = gradient.shape[:2]
        of_output = gradient.flatten(0, 1)
        of_weights = torch.bmm(of_output, v.transpose(1, 2))
        if kept is not None:
            of_weights *= kept
        # d softmax: w (g - sum(g w)); a masked entry has weight 0, so nothing flows through it
        of_scores = torch._softmax_backward_data(of_weights.to(weights.dtype), weights, -1, weights.dtype)
        of_scores = of_scores.mul_(ctx.beta).to(q.dtype)
        of_query = torch.bmm(of_scores, k).unflatten(0, shape)
        of_key = torch.bmm(of_scores.transpose(1, 2), q).unflatten(0, shape)
        of_value = torch.bmm(used.transpose(1, 2), of_output).unflatten(0, shape)
        return of_query, of_key, of_value, None, None, None, None, None


def _weights(scores: Tensor, mask: Tensor | None, beta: float) -> Tensor:
    """Softmax in at least float32, in place where the tensor is ours."""
    scores = (scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores).mul_(beta)
    if mask is None:
        return _softmax(scores)
    hidden = ~mask
    weights = _softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min))
    return weights.masked_fill_(hidden, 0.0)


def _softmax(scores: Tensor) -> Tensor:
    """Fewer than sixteen entries PyTorch takes one by one, five times as long as sixteen at a time."""
    entries = scores.shape[-1]
    if entries >= POSITIONS:
        return torch.softmax(scores, dim=-1)
    enough = F.pad(scores, (0, POSITIONS - entries), value=-torch.inf)
    return torch.softmax(enough, dim=-1)[..., :entries]
