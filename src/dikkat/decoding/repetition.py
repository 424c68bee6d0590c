"""Repetition: which tokens a row must not write again, and whether a finished text went round in a loop."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_COPIES = 4
"""Copies of a group of tokens, one right after the other, that make a loop."""
_SHORTEST = 8
"""Tokens of the shortest loop: a row of zeros or dots is none."""
_LONGEST_GROUP = 12
_OFTEN = 3
"""Times that three tokens stand in a text that did not end by itself, for it to be a loop as well."""


def penalized(logits: Float[Tensor, "R V"], seen: Int[Tensor, "R T"], penalty: float) -> Float[Tensor, "R V"]:
    """Logits with those of `seen` tokens moved down by `penalty`, once each (Keskar et al. 2019, section 4.1)."""
    present = torch.zeros_like(logits, dtype=torch.bool).scatter(1, seen, True)
    moved = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(present, moved, logits)


def completing_ngrams(written: Int[Tensor, "R T"], size: int, vocab_size: int) -> Bool[Tensor, "R V"]:
    """True at the tokens that would end an n-gram of `size` tokens which the row has already written."""
    blocked = torch.zeros(len(written), vocab_size + 1, dtype=torch.bool, device=written.device)
    if written.shape[1] >= size:
        # (R, T) -> (R, T - size + 1, size)
        ngrams = written.unfold(1, size, 1)
        begun = written[:, written.shape[1] - size + 1 :].unsqueeze(1)
        repeats = (ngrams[:, :, :-1] == begun).all(dim=2)
        # n-grams that begin in another way block the column behind the last token
        blocked.scatter_(1, torch.where(repeats, ngrams[:, :, -1], vocab_size), True)
    return blocked[:, :vocab_size]


def is_loop(tokens: Sequence[Hashable], finished: bool = True) -> bool:
    """Whether `tokens` repeat a group of them over and over, or did not end and keep coming back to the same three."""
    if len(tokens) - len(set(tokens)) < _COPIES - 1:
        return False
    if any(_has_run(tokens, size) for size in range(1, _LONGEST_GROUP + 1)):
        return True
    return not finished and _most_frequent_trigram(tokens) >= _OFTEN


def _has_run(tokens: Sequence[Hashable], size: int) -> bool:
    """Whether a group of `size` tokens is followed by itself so often."""
    wanted = max(_COPIES * size, _SHORTEST) - size
    run = 0
    for token, before in zip(tokens[size:], tokens, strict=False):
        run = run + 1 if token == before else 0
        if run >= wanted:
            return True
    return False


def _most_frequent_trigram(tokens: Sequence[Hashable]) -> int:
    counts: dict[tuple[Hashable, ...], int] = {}
    for trigram in zip(tokens, tokens[1:], tokens[2:], strict=False):
        counts[trigram] = counts.get(trigram, 0) + 1
    return max(counts.values(), default=0)
