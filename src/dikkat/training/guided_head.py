"""The loss of a head that is told which words to attend to (guided alignment, Chen et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from dikkat.data.batching import IntArray
from dikkat.data.links import Links
from dikkat.kernels.device import to_device
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation


@dataclass(frozen=True, slots=True)
class GuidedHead:
    """Guide one head of an attention by the links of a corpus.

    Its output is computed as ever, by the fast kernels; only the weights of this loss are computed beside it.
    """

    attention: MultiHeadAttention
    head: int
    """Number of the head, from 0."""
    links: Links
    weight: float
    """Multiplies the loss."""

    @contextmanager
    def observed(self) -> Iterator[list[Observation]]:
        """Yield a list that is filled with what the attention is given while the body runs."""
        observations: list[Observation] = []
        handle = self.attention.observe(observations.append)
        try:
            yield observations
        finally:
            handle.remove()

    def loss(self, observation: Observation, indices: IntArray) -> Tensor | None:
        """Return the weighted sum over linked rows of -log p, in nats, or None where the batch has no link.

        p is what the head attends to all columns of the row together. `indices` (B,) are the pairs of the batch that
        was observed.
        """
        batch = self.links.of(indices)
        if not len(batch.sentences):
            return None
        device = observation.query.device
        sentences, rows, columns, groups = (
            to_device(numbers, device) for numbers in (batch.sentences, batch.rows, batch.columns, batch.groups)
        )
        # (B, H, T, S) -> (links,)
        weights = self.attention.weights(observation.query, observation.key, observation.mask)
        linked = weights[sentences, self.head, rows, columns]
        # a word may be several tokens: (links,) -> (rows,)
        shares = linked.new_zeros(batch.num_rows).index_add(0, groups, linked)
        return -self.weight * shares.clamp_min(torch.finfo(shares.dtype).tiny).log().sum()
