"""Attention of one or a few queries in bfloat16, as steps of decoding by PyTorch ask for it; see `steps_by_torch`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def attend(query: Tensor, held: Tensor, hidden: Tensor | None, beta: float) -> Tensor:
    """(N, H, T, K) of queries, keys and values (2, N, H, S, K) and what is added to their scores, if anything.

    PyTorch's own attention is made for one query or for many. A few take half the time by products of all heads.
    """
    if query.shape[2] == 1 or hidden is None:
        return F.scaled_dot_product_attention(query, held[0], held[1], attn_mask=hidden, scale=beta)
    keys, values = held.flatten(1, 2)
    scores = torch.bmm(query.flatten(0, 1), keys.mT).view(*query.shape[:3], -1)
    weights = torch.softmax(torch.add(hidden, scores, alpha=beta), dim=-1).to(torch.bfloat16)
    return torch.bmm(weights.flatten(0, 1), values).view(query.shape)


def attention_weights(query: Tensor, key: Tensor, hidden: Tensor | None, beta: float) -> Tensor:
    """(N, H, T, S), in float32: what it attends with."""
    scores = query.float() @ key.float().mT * beta
    return torch.softmax(scores if hidden is None else scores + hidden, dim=-1)
