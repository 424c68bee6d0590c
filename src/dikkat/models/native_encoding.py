"""Which sources are read natively, and what the native encoder computes with: the one place where that is decided."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dikkat.models.encoder import Encoder
from dikkat.models.native_coverage import (
    ACTIVATIONS,
    Bystanders,
    QuantizedWeights,
    are_covered,
    beta_of,
    have_width,
    is_plain_attention,
    kind_of,
    linear_weights,
    modules_of,
    multiplies_in_tiles,
    norm_weights,
)
from dikkat.native.encoder import EncoderWeights, can_encode, encode
from dikkat.native.encoder_by_torch import EncoderByTorch
from dikkat.nn.blocks import EncoderBlock
from dikkat.nn.residual import PostNormResidual, PreNormResidual

LONG = 128
"""Tokens of a sentence beyond which PyTorch, whose threads share it, is faster in float32. Eight bits stay native."""


class EncoderParts:
    """The encoder of a model, and whether native code does the same.

    Weights are used where they lie and nothing of them is packed, so those of a model in training are never stale; but
    for `quantized` ones.
    """

    def __init__(self, bystanders: Bystanders, encoder: nn.Module, quantized: QuantizedWeights | None = None) -> None:
        """`bystanders` are those of the model that the encoder is a part of."""
        # nothing is read off it before it is known to be covered
        self._encoder, self._quantized = cast(Encoder, encoder), quantized
        self._bystanders = bystanders

    def can_run(self, x: Tensor) -> bool:
        """Whether embeddings `x` (B, S, D) go through natively: there is native code, it is the same, and nobody is in
        its way, nor reads the attention.
        """
        if not (can_encode() or self._is_in_tiles()) or 0 in x.shape or not self._bystanders.keep_away():
            return False
        if not self._bystanders.have_replaced_nothing():
            return False
        is_covered = partial(self._is_covered, x)
        covered = is_covered() if self._quantized is None else self._quantized.once("encodes", is_covered)
        return covered and not any(block.self_attention.is_read for block in self._blocks())

    def run(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """States of the real tokens, whose neighbours are the real ones alone; zeros elsewhere.

        A sentence of more than `LONG` tokens goes through PyTorch, alone, so that no neighbour changes its states.
        """
        if self._quantized is not None and self._is_in_tiles():
            return self._quantized.once("encoder in tiles", self._in_tiles).encode(x, mask)
        weights = self._weights() if self._quantized is None else self._quantized.once("encoder", self._weights)
        lengths: list[int] = mask.sum(dim=1).tolist()
        long = [row for row, length in enumerate(lengths) if length > LONG and self._quantized is None]
        if not long and sum(lengths) == mask.numel():
            # (B, S, D) -> (B * S, D)
            return encode(weights, x.flatten(0, 1), lengths).view(x.shape)
        states = x.new_zeros(x.shape)
        here = mask.index_fill(0, torch.tensor(long), False) if long else mask
        places = here.flatten().nonzero().squeeze(1)
        # (B, S, D) -> (N, D): no padding is computed
        packed = x.flatten(0, 1).index_select(0, places)
        found = encode(weights, packed, [0 if row in long else length for row, length in enumerate(lengths)])
        states.view(-1, x.shape[2]).index_copy_(0, places, found)
        for row in long:
            states[row, mask[row]] = self._encoder(x[row, mask[row]][None])[0]
        return states

    def _is_in_tiles(self) -> bool:
        return multiplies_in_tiles(self._quantized)

    def _in_tiles(self) -> EncoderByTorch:
        return EncoderByTorch(self._weights())

    def _is_covered(self, x: Tensor) -> bool:
        modules = modules_of(self._encoder)
        if (
            type(self._encoder) is not Encoder
            or not are_covered(modules, x.contiguous())
            or not have_width(modules, x.shape[2])
        ):
            return False
        blocks = self._blocks()
        return (
            all(is_plain_attention(block.self_attention, x.shape[2]) for block in blocks)
            and len({kind_of((block.self_attention,), _residuals(block), block.feed_forward) for block in blocks}) == 1
            and blocks[0].feed_forward.activation in ACTIVATIONS
            and (isinstance(self._encoder.final_norm, nn.Identity) or not _is_post_norm(blocks[0]))
        )

    def _weights(self) -> EncoderWeights:
        blocks = self._blocks()
        first, post_norm = blocks[0], _is_post_norm(blocks[0])
        norms = [norm_weights(residual.norm) for block in blocks for residual in _residuals(block)]
        linears = [
            linear_weights(linear, self._quantized)
            for block in blocks
            for linear in (
                block.self_attention.in_projection, block.self_attention.out_projection,
                block.feed_forward.inner, block.feed_forward.outer,
            )
        ]  # fmt: skip
        return EncoderWeights(
            num_heads=first.self_attention.num_heads,
            head_dim=first.self_attention.head_dim,
            post_norm=post_norm,
            gelu=first.feed_forward.activation == "gelu",
            linears=tuple(linears),
            norms=(None, *norms) if post_norm else (*norms, norm_weights(self._encoder.final_norm)),
            betas=tuple(beta_of(block.self_attention) for block in blocks),
        )

    def _blocks(self) -> list[EncoderBlock]:
        return [cast(EncoderBlock, block) for block in self._encoder.blocks]


def _residuals(block: EncoderBlock) -> tuple[PostNormResidual | PreNormResidual, ...]:
    return block.self_residual, block.feed_forward_residual


def _is_post_norm(block: EncoderBlock) -> bool:
    return isinstance(block.self_residual, PostNormResidual)
