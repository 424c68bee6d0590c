"""Positions as fixed sines and cosines (Vaswani et al. 2017, section 3.5), in the layouts that are in use.

The table is computed, never trained and never saved; it grows with the longest sequence seen, so no length crashes.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dikkat_runtime.engine import position_tables as tables
from dikkat_runtime.engine.position_tables import SINUSOIDAL
from dikkat_runtime.errors import DataError

# Tables of computed positions that grow with the longest sequence seen, and outlive the call that made them grow.


def with_length(table: Tensor, axis: int, length: int, compute: Callable[[int], Tensor]) -> Tensor:
    """Return `table` where it has `length` positions along `axis`, else one of twice as many, made by `compute`.

    The new table has the device and type of the old one. It is computed outside inference mode: a tensor made inside
    could never be saved for a backward pass, and a text of a new length in validation would end the training.
    """
    if length <= table.shape[axis]:
        return table
    with torch.inference_mode(False):
        return compute(2 * length).to(device=table.device, dtype=table.dtype)


Layout = Literal["interleaved", "halves", "concatenated"]
LAYOUTS: dict[str, Layout] = dict(zip(SINUSOIDAL, get_args(Layout), strict=True))
"""The order of the columns by the names of positions in a configuration."""


def sinusoids(
    length: int, model_dim: int, layout: Layout = "interleaved", dtype: torch.dtype = torch.float32
) -> Float[Tensor, "T D"]:
    """Compute the table of positions 0 … length-1, in float64, returned as `dtype`.

    `interleaved` is the paper: column 2j is sin(i / 10000^(2j/D)), column 2j+1 its cosine. `halves` has the same
    columns in the order of Hugging Face's Marian: first all sines, then all cosines. `concatenated` has that order too,
    and the frequencies of tensor2tensor and of Marian itself. Raises `ValueError` for an unknown layout.
    """
    kinds = [kind for kind, own in LAYOUTS.items() if own == layout]
    if not kinds:
        raise ValueError(f'layout must be "interleaved", "halves" or "concatenated", not {layout!r}')
    return torch.from_numpy(tables.sinusoids(length, model_dim, kinds[0])).to(dtype)


class SinusoidalPositions(nn.Module):
    """Adds the table of `sinusoids` to a sequence, from any offset (Vaswani et al. 2017, section 3.5)."""

    table: Tensor

    def __init__(self, model_dim: int, layout: Layout = "interleaved", initial_length: int = 256) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.layout: Layout = layout
        self.register_buffer("table", sinusoids(initial_length, model_dim, layout), persistent=False)

    def forward(
        self, x: Float[Tensor, "*B T D"], offset: int = 0, position_ids: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "*B T D"]:
        """Add to `x` the rows `offset … offset+T-1`: at step t of decoding the offset is the cache length.

        With `position_ids`, those rows instead.
        """
        end = offset + x.shape[-2] if position_ids is None else int(position_ids.max()) + 1
        self.table = with_length(self.table, 0, end, lambda length: sinusoids(length, self.model_dim, self.layout))
        return x + (self.table[offset:end] if position_ids is None else self.table[position_ids]).to(x.dtype)


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
