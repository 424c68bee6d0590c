"""Positions as a learned table, which ends somewhere."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dikkat_runtime.errors import DataError


class BeyondPositionsError(DataError, ValueError):
    """A sequence reaches beyond the table of learned positions."""


class LearnedPositions(nn.Module):
    """Adds row i of a trained (max_positions, D) table to position i (Gehring et al. 2017, section 3.1).

    Raises `BeyondPositionsError`, a `ValueError`, for a sequence that the table does not reach.
    """

    def __init__(self, model_dim: int, max_positions: int = 1024) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.embedding = nn.Parameter(torch.empty(max_positions, model_dim))
        # as large as a scaled embedding, which has unit variance
        nn.init.normal_(self.embedding)

    def forward(
        self, x: Float[Tensor, "*B T D"], offset: int = 0, position_ids: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "*B T D"]:
        """Add to `x` the rows `offset ... offset+T-1`: at step t of decoding the offset is the cache length.

        With `position_ids`, those rows instead.
        """
        end = offset + x.shape[-2] if position_ids is None else int(position_ids.max()) + 1
        if end > self.max_positions:
            raise BeyondPositionsError(
                f"a sequence must fit into max_positions = {self.max_positions} learned positions, but reaches {end};"
                " shorten it, or train with a larger max_positions or other positions"
            )
        return x + (self.embedding[offset:end] if position_ids is None else self.embedding[position_ids]).to(x.dtype)


class NoPositions(nn.Module):
    """Leaves the embeddings as they are: the positions enter in attention, or not at all."""

    def forward(
        self, x: Float[Tensor, "*B T D"], offset: int = 0, position_ids: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "*B T D"]:
        return x
