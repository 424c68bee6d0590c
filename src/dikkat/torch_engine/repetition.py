"""Keep a row from repeating tokens."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def penalized(logits: Float[Tensor, "R V"], seen: Int[Tensor, "R T"], penalty: float) -> Float[Tensor, "R V"]:
    """Return logits with those of `seen` tokens lowered by `penalty`, once each (Keskar et al. 2019, section 4.1)."""
    present = torch.zeros_like(logits, dtype=torch.bool).scatter(1, seen, True)
    lowered = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(present, lowered, logits)


def completing_ngrams(written: Int[Tensor, "R T"], size: int, vocab_size: int) -> Bool[Tensor, "R V"]:
    """Return True at the tokens that would end an n-gram of `size` tokens which the row already has."""
    blocked = torch.zeros(len(written), vocab_size + 1, dtype=torch.bool, device=written.device)
    if written.shape[1] >= size:
        # (R, T) -> (R, T - size + 1, size)
        ngrams = written.unfold(1, size, 1)
        begun = written[:, written.shape[1] - size + 1 :].unsqueeze(1)
        repeats = (ngrams[:, :, :-1] == begun).all(dim=2)
        # n-grams that begin in another way block the column behind the last token
        blocked.scatter_(1, torch.where(repeats, ngrams[:, :, -1], vocab_size), True)
    return blocked[:, :vocab_size]
