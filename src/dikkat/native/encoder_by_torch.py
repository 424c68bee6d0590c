"""What the native encoder does, by PyTorch in bfloat16; see `layers_by_torch`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import BFloat16, Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.encoder import EncoderWeights
from dikkat.native.layers_by_torch import BLOCK, Activation, PackedLinear, SubLayers

WIDTHS = {64: 1.0, 128: 1.1, 256: 1.25, 512: 1.5}
"""Tokens of a row of sentences, and what a layer of a block of such rows takes: the longer, the more is attended to."""
STEP = 256
"""Wider rows, which have one sentence each, are a multiple of so many."""


class EncoderByTorch:
    """An encoder of packed weights.

    Sentences are laid end to end in rows, so that little padding is computed, and each attends to itself alone.
    """

    def __init__(self, weights: EncoderWeights) -> None:
        """Raises `ValueError` for weights that are no numbers."""
        self._heads, self._betas = weights.num_heads, weights.betas
        self._stream = SubLayers(weights.norms, post_norm=weights.post_norm)
        activation: Activation = "gelu" if weights.gelu else "relu"
        self._linears = [
            PackedLinear(each, activation if place % 4 == 2 else "none") for place, each in enumerate(weights.linears)
        ]

    def encode(self, embedded: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """States, in the type of `embedded`; zeros at padding."""
        lengths: list[int] = mask.sum(dim=1).tolist()
        width, starts = laid_out(lengths)
        num_rows = starts[-1] // width + 1
        # longer blocks take a tenth less, where there are so many that the last one counts little
        rows_of_a_block = max(1, (2 * BLOCK if num_rows * width >= 8 * BLOCK else BLOCK) // width)
        num_rows += -num_rows % rows_of_a_block
        owners, places = _owners(lengths, starts, num_rows * width)
        # where the tokens stand in the batch
        tokens = mask.flatten().nonzero().squeeze(1)
        x = embedded.new_zeros(len(owners), embedded.shape[2], dtype=torch.bfloat16)
        x.index_copy_(0, places, embedded.flatten(0, 1).index_select(0, tokens).to(torch.bfloat16))
        blocks = x.view(-1, rows_of_a_block * width, x.shape[1]), owners.view(-1, rows_of_a_block, width)
        found = torch.cat([self._states(*block) for block in zip(*blocks, strict=True)])
        states = torch.zeros_like(embedded)
        states.view(-1, embedded.shape[2]).index_copy_(0, tokens, found.index_select(0, places).to(embedded.dtype))
        return states

    def _states(self, x: BFloat16[Tensor, "N D"], owners: Int[Tensor, "R W"]) -> BFloat16[Tensor, "N D"]:
        if owners.shape[1] > max(WIDTHS):
            # (R, W) -> (R, 1, W)
            allowed = (owners >= 0).unsqueeze(1)
        else:
            # padding attends to padding, since nothing would be no number
            allowed = owners.unsqueeze(2) == owners.unsqueeze(1)
        hidden = additive(allowed).unsqueeze(1)
        x, normed = self._stream.begin(x)
        for layer, beta in enumerate(self._betas):
            inward, outward, inner, outer = self._linears[4 * layer : 4 * layer + 4]
            # (N, 3 H K) -> (R, W, 3, H, K) -> (3, R, H, W, K)
            heads = inward(normed).view(*owners.shape, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=hidden, scale=beta)
            mixed = mixed.transpose(1, 2).reshape(len(x), -1)
            x, normed = self._stream.after(2 * layer + 1, outward.added_to(x, mixed))
            x, normed = self._stream.after(2 * layer + 2, outer.added_to(x, inner(normed)))
        return normed


def laid_out(lengths: Sequence[int]) -> tuple[int, list[int]]:
    """The width of the rows that take least, and where in them, end to end, each sentence begins; none lies in two."""
    longest = max(lengths)
    found = {width: _starts(lengths, width) for width in WIDTHS if width >= longest}
    if not found:
        width = longest + -longest % STEP
        return width, [width * place for place in range(len(lengths))]
    best = min(found, key=lambda width: (found[width][-1] + lengths[-1]) * WIDTHS[width])
    return best, found[best]


def _starts(lengths: Sequence[int], width: int) -> list[int]:
    starts, end = [], 0
    for length in lengths:
        room = -end % width
        if length > room > 0:
            end += room
        starts.append(end)
        end += length
    return starts


def _owners(lengths: Sequence[int], starts: Sequence[int], rows: int) -> tuple[Int[Tensor, "N"], Int[Tensor, "M"]]:
    """The number of the sentence of each row, or minus one, and the rows of all M tokens in their order."""
    counts = torch.tensor(lengths)
    before = counts.cumsum(0) - counts
    numbers = torch.arange(len(lengths)).repeat_interleave(counts)
    places = torch.arange(len(numbers)) + (torch.tensor(starts) - before)[numbers]
    return torch.full((rows,), -1).index_copy_(0, places, numbers), places


def additive(mask: Bool[Tensor, "..."]) -> BFloat16[Tensor, "..."]:
    """Minus infinity where nothing may be attended to."""
    return torch.zeros(mask.shape, dtype=torch.bfloat16).masked_fill_(~mask, -torch.inf)
