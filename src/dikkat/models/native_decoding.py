"""Which decodes step natively, and what the native step computes with: the one place where that is decided.

Who only reads attention weights is given those of the native step; for everybody else PyTorch takes it.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.decoder import Decoder
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
    matrix_weights,
    modules_of,
    multiplies_in_tiles,
    norm_weights,
)
from dikkat.native.decoder import DecoderSteps, DecoderWeights, can_step
from dikkat.native.layers import LinearWeights
from dikkat.native.search import BeamSearch, Found, Marks
from dikkat.native.steps_by_torch import DecoderByTorch, StepsByTorch
from dikkat.nn.blocks import DecoderBlock
from dikkat.nn.cache import CrossAttentionCache, DecoderCache, SelfAttentionCache
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.learned_positions import LearnedPositions
from dikkat.nn.masks import key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.residual import PostNormResidual, PreNormResidual

STRETCH = 64
"""Steps of a search after which it may be interrupted."""


class DecoderParts:
    """What a step of a model runs through, and whether the native step does the same.

    Weights are used where they lie and nothing of them is packed, so those of a model in training are never stale; but
    for `quantized` ones.
    """

    def __init__(
        self,
        bystanders: Bystanders,
        embedding: nn.Module,
        positions: nn.Module,
        dropout: nn.Module,
        decoder: nn.Module,
        output_weight: Tensor,
        quantized: QuantizedWeights | None = None,
    ) -> None:
        """`bystanders` are those of the model that the parts are parts of."""
        # so much for the types; nothing is read off the parts before they are known to be covered
        self._embedding, self.decoder = cast(TokenEmbedding, embedding), cast(Decoder, decoder)
        self.positions, self._output, self._quantized = positions, output_weight, quantized
        self._parts = embedding, positions, dropout, decoder
        self._bystanders = bystanders

    def can_begin(self) -> bool:
        """Whether a decode may begin natively: there is a native step, it is the same, and nobody is in its way."""
        undisturbed = self.are_undisturbed() and self._bystanders.have_replaced_nothing()
        if not (can_step() or multiplies_in_tiles(self._quantized)) or not undisturbed:
            return False
        return self.are_covered() if self._quantized is None else self._quantized.once("steps", self.are_covered)

    def are_undisturbed(self) -> bool:
        """Whether the next step may be native: no training, no gradient, no autocast, no observer and no hook."""
        return self._bystanders.keep_away()

    def are_covered(self) -> bool:
        """Whether the native step has all this arithmetic: plain dot-product attention of as many key as query heads,
        ReLU or GELU, layer norm, positions that are added to the embeddings, in float32 on the CPU.
        """
        modules = modules_of(*self._parts)
        if not are_covered(modules, self._output):
            return False
        return self._embedding.weight.shape == self._output.shape and self._layers_are_alike(modules)

    def _layers_are_alike(self, modules: list[nn.Module]) -> bool:
        """And all of one width, as a configuration always makes them."""
        blocks, width = _blocks(self.decoder), self._output.shape[1]
        kinds = {kind_of(_attentions(block), _residuals(block), block.feed_forward) for block in blocks}
        return (
            all(is_plain_attention(attention, width) for block in blocks for attention in _attentions(block))
            and len(kinds) == 1
            and blocks[0].feed_forward.activation in ACTIVATIONS
            and have_width(modules, width)
            and (isinstance(self.decoder.final_norm, nn.Identity) or not _is_post_norm(blocks[0]))
        )

    def begin(
        self, memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], rows: int
    ) -> DecoderSteps | StepsByTorch:
        """Steps of covered parts, with so many `rows` a sentence; by PyTorch where it multiplies in tiles."""
        if self._quantized is None or not multiplies_in_tiles(self._quantized):
            return DecoderSteps(self.weights(), memory, mask, rows)
        packed = self._quantized.once("decoder in tiles", lambda: DecoderByTorch(self._weights()))
        return StepsByTorch(packed, memory, mask, rows)

    def attentions(self) -> list[MultiHeadAttention]:
        """Of covered parts, in the order of a step: self- and cross-attention, a layer."""
        return [attention for block in _blocks(self.decoder) for attention in _attentions(block)]

    def weights(self) -> DecoderWeights:
        """Of covered parts; the tensors keep the memory of the parameters alive."""
        return self._weights() if self._quantized is None else self._quantized.once("decoder", self._weights)

    def _weights(self) -> DecoderWeights:
        blocks = _blocks(self.decoder)
        first, post_norm, final = blocks[0], _is_post_norm(blocks[0]), self.decoder.final_norm
        norms = [norm_weights(residual.norm) for block in blocks for residual in _residuals(block)]
        linears = [linear for block in blocks for linear in _linears(block, self._quantized)]
        return DecoderWeights(
            num_heads=first.self_attention.num_heads,
            head_dim=first.self_attention.head_dim,
            post_norm=post_norm,
            gelu=first.feed_forward.activation == "gelu",
            embedding=self._embedding.weight.detach(),
            embedding_scale=self._embedding.scale,
            linears=(*linears, matrix_weights(self._output.detach(), self._quantized)),
            sources=tuple(_source(block, self._quantized) for block in blocks),
            norms=(None, *norms) if post_norm else (*norms, norm_weights(final)),
            betas=tuple(map(beta_of, self.attentions())),
        )


class NativeCache(DecoderCache):
    """A cache that native steps fill; PyTorch's step finds everything in it, and from then on has it to itself."""

    def __init__(
        self, parts: DecoderParts, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], rows: int
    ) -> None:
        """`rows` for each sentence; `parts` must say that they can begin."""
        super().__init__([], key_mask(source_mask), rows)
        self._parts, self._attentions = parts, parts.attentions()
        self._source = memory, source_mask
        self._steps: DecoderSteps | StepsByTorch | None = parts.begin(memory, source_mask, rows)
        self._nowhere = torch.zeros(1, 1, memory.shape[-1])

    @property
    def steps_natively(self) -> bool:
        """Whether the next step is native."""
        return self._steps is not None and self._parts.are_undisturbed()

    @property
    def length(self) -> int:
        return super().length if self._steps is None else self._steps.length

    @property
    def self_attention(self) -> list[SelfAttentionCache]:
        """Only PyTorch's step asks for it."""
        self._leave_to_pytorch()
        return self._self_attention

    @self_attention.setter
    def self_attention(self, layers: list[SelfAttentionCache]) -> None:
        self._self_attention = layers

    @property
    def cross_attention(self) -> list[CrossAttentionCache]:
        """Only PyTorch's step asks for it."""
        self._leave_to_pytorch()
        return self._cross_attention

    @cross_attention.setter
    def cross_attention(self, layers: list[CrossAttentionCache]) -> None:
        self._cross_attention = layers

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        """The logits of `EncoderDecoder.step`; only where `steps_natively`."""
        steps = self._steps
        assert steps is not None
        # added to nothing, positions are themselves: they grow, or refuse to, as they would for PyTorch
        position = self._parts.positions(self._nowhere, offset=steps.length)[0, 0]
        seen = self._room_for_readers(steps)
        logits = steps.step(tokens, position, seen)
        self._give(seen)
        return logits

    def search(self, best: int, caps: Int[Tensor, "B"], penalties: Float[Tensor, "P"], marks: Marks) -> Found | None:
        """See `BeamSearch`; only at the beginning and where `steps_natively`. Nothing is left of the cache after it.

        None where PyTorch steps, which must be asked for each.
        """
        steps, positions = self._steps, self._parts.positions
        if not isinstance(steps, DecoderSteps):
            return None
        self._steps = None
        search = BeamSearch(steps, best, caps, penalties, marks)
        while not search.is_over:
            seen = self._room_for_readers(steps)
            steps.show(seen)
            # who reads is given the weights of every step
            ahead = 1 if seen else len(penalties) if search.ends_at_once else STRETCH
            if isinstance(positions, LearnedPositions):
                # at the end of the table it is the next one that is asked for, and refused
                ahead = max(1, min(ahead, positions.max_positions - steps.length))
            places = self._nowhere.expand(1, ahead, -1)
            search.go_on(positions(places, offset=steps.length)[0])
            self._give(seen)
        return search.found

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        if self._steps is not None and len(index) == self._steps.rows:
            self._steps.reorder(index)
        else:
            super().reorder(index)

    def drop(self, keep: Int[Tensor, "B2"]) -> None:
        if self._steps is not None:
            self._steps.drop(keep)
        else:
            super().drop(keep)

    def _room_for_readers(self, steps: DecoderSteps | StepsByTorch) -> dict[int, Tensor]:
        read = [place for place, attention in enumerate(self._attentions) if attention.is_read]
        return {place: steps.room_for_weights(place) for place in read}

    def _give(self, seen: dict[int, Tensor]) -> None:
        for place, weights in seen.items():
            self._attentions[place].give_weights(self._as_in_pytorch(place, weights))

    def _as_in_pytorch(self, place: int, weights: Float[Tensor, "R H S"]) -> Float[Tensor, "..."]:
        """(R, H, 1, S) of self-attention; of cross-attention (B, H, rows, S), the rows of a sentence as its queries."""
        if place % 2 == 0:
            return weights[:, :, None]
        grouped = weights[..., : self.mask.shape[-1]].unflatten(0, (-1, self.rows_per_sentence))
        return grouped.transpose(1, 2)

    def _leave_to_pytorch(self) -> None:
        if (steps := self._steps) is None:
            return
        self._steps = None
        kept = torch.tensor(steps.sentences, dtype=torch.int64)
        with torch.no_grad():
            memory, source_mask = (part[kept] for part in self._source)
            cross = self._parts.decoder.start_cache(memory, source_mask)
        self.self_attention, self.cross_attention = cross.self_attention, cross.cross_attention
        self.mask = cross.mask
        if steps.length:
            for own, (key, value) in zip(self._self_attention, steps.keys_and_values(), strict=True):
                own.append(key, value)


def _blocks(decoder: Decoder) -> list[DecoderBlock]:
    return [cast(DecoderBlock, block) for block in decoder.blocks]


def _attentions(block: DecoderBlock) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    return block.self_attention, block.cross_attention


def _residuals(block: DecoderBlock) -> tuple[PostNormResidual | PreNormResidual, ...]:
    return block.self_residual, block.cross_residual, block.feed_forward_residual


def _is_post_norm(block: DecoderBlock) -> bool:
    return isinstance(block.self_residual, PostNormResidual)


def _linears(block: DecoderBlock, quantized: QuantizedWeights | None) -> tuple[LinearWeights, ...]:
    """In the order of the step."""
    own, cross, feed_forward = block.self_attention, block.cross_attention, block.feed_forward
    query = linear_weights(cross.in_projection, quantized, slice(cross.splits[0]))
    linears = own.in_projection, own.out_projection, cross.out_projection, feed_forward.inner, feed_forward.outer
    found = [linear_weights(linear, quantized) for linear in linears]
    return (*found[:2], query, *found[2:])


def _source(block: DecoderBlock, quantized: QuantizedWeights | None) -> LinearWeights:
    cross = block.cross_attention
    return linear_weights(cross.in_projection, quantized, slice(cross.splits[0], None))
