"""Which sentences share a batch, and their ids side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.decoding.stepper import EOS, PAD

_FEWEST = 32
"""Sentences of a worker: fewer are not shared out."""


def length_batches(
    lengths: Sequence[int], batch_size: int, batch_tokens: int, *, workers: int = 1
) -> Iterator[list[int]]:
    """Places of the sentences that share a batch, longest first; empty ones are in none. The end mark is counted.

    A batch has at most `batch_size` sentences and `batch_tokens` tokens, padding included; a longer sentence is alone.
    Of several `workers` each has as many batches, which take about as long, as far as these limits allow.
    """
    order = sorted((place for place, length in enumerate(lengths) if length), key=lambda place: -lengths[place])

    def most(start: int) -> int:
        return max(1, min(batch_size, batch_tokens // (lengths[order[start]] + 1)))

    # a longer sentence takes more steps, and more of each
    costs = [(lengths[place] + 1) ** 1.5 for place in order]
    rest, start = sum(costs), 0
    left = _count(len(order), most, workers)
    while start < len(order):
        end = min(len(order), start + most(start))
        if workers > 1:
            # at least so many, or the other batches could not hold what is left
            least = max(start + 1, len(order) - (left - 1) * batch_size)
            end = min(end, max(least, _end_of_share(costs, start, rest / left)))
        yield order[start:end]
        rest -= sum(costs[start:end])
        start, left = end, max(1, left - 1)


def _count(sentences: int, most: Callable[[int], int], workers: int) -> int:
    """Batches, if each is as large as it may be, and others, so that each worker has as many."""
    count = start = 0
    while start < sentences:
        start, count = start + most(start), count + 1
    if count == 1 and sentences < workers * _FEWEST:
        return 1
    return count + -count % workers


def _end_of_share(costs: Sequence[float], start: int, share: float) -> int:
    """Where, from `start` on, about so much has been spent."""
    end, spent = start, 0.0
    while end < len(costs) and spent + costs[end] / 2 <= share:
        spent += costs[end]
        end += 1
    return end


def pad_sources(
    sentences: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Source ids with their end marks, padded to the longest, and the mask that is True at real tokens."""
    width = max(len(sentence) for sentence in sentences) + 1
    rows = [[*sentence, EOS] + [PAD] * (width - len(sentence) - 1) for sentence in sentences]
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    # (B,) -> (B, S)
    source_mask = torch.arange(width) < lengths.unsqueeze(1)
    return torch.tensor(rows, dtype=torch.int64).to(device), source_mask.to(device)
