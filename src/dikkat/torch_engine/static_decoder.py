"""A decoder that takes a step by the same operations at every position, in buffers that never move."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.kernels.rotary import Rotation
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import CrossAttendingBlock, DecoderBlock, RecurrentDecoderBlock
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.learned_positions import LearnedPositions, NoPositions
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import Positions
from dikkat.nn.positioned_blocks import PositionedDecoderBlock
from dikkat.nn.scorers import DotProductScorer
from dikkat.nn.sliding_window import Window
from dikkat.nn.static_cache import StaticCache, StaticState


def why_not_static(model: EncoderDecoder) -> str:
    """Return why `StaticDecoder` cannot compute the model; empty where it can."""
    if model.target_prefix is not None:
        return "every target begins with a prefix"
    for block in model.decoder.blocks:
        if type(block) not in (DecoderBlock, PositionedDecoderBlock, RecurrentDecoderBlock):
            return "a decoder block is of another kind"
        for part in block.modules():
            if isinstance(part, MultiHeadAttention) and not isinstance(part.comparison, DotProductScorer):
                return "attention has a bias for distances, or a score or selection of its own"
    return ""


class _Layer:
    """Buffers of one decoder block: what was written, and keys and values of the source."""

    def __init__(self, block: CrossAttendingBlock, sentences: int, rows: int, sources: int, table: Tensor) -> None:
        self.block = block
        self.cross: MultiHeadAttention = block.cross_attention
        cross, (capacity, model_dim) = self.cross, table.shape
        self.memory_key = table.new_zeros(sentences, cross.num_kv_heads, sources, cross.head_dim)
        self.memory_value = torch.zeros_like(self.memory_key)
        self.positions: Tensor | None = None
        if isinstance(block, PositionedDecoderBlock):
            self.positions = _position_table(block.positions, capacity, table)
        self.rotations: Tensor | None = None
        if isinstance(block, RecurrentDecoderBlock):
            self.cache: StaticCache | StaticState = StaticState(rows, model_dim, table)
            return
        attention = self.attention
        self.cache = StaticCache(capacity, rows, attention.num_kv_heads, attention.head_dim, table)
        if attention.rotary is not None:
            like = table.new_empty(1, 1, capacity, attention.head_dim)
            self.rotations = attention.rotary.rotation(like).table

    @property
    def attention(self) -> MultiHeadAttention:
        """The self-attention of the block, which a recurrent one has not."""
        return cast(DecoderBlock, self.block).self_attention

    @property
    def window(self) -> Window | None:
        """How far the self-attention of the block sees; None for everywhere."""
        return None if isinstance(self.block, RecurrentDecoderBlock) else self.attention.window


class StaticDecoder:
    """The decoder of a model for B sentences of up to S source tokens, with `rows` hypotheses of up to C tokens each.

    The weights are those of the model; `why_not_static` says which models this computes.
    """

    def __init__(self, model: EncoderDecoder, sentences: int, rows: int, sources: int, capacity: int) -> None:
        """Set up the buffers, in the type and on the device of the model's weights."""
        self.shape = sentences, rows
        self.sources, self.capacity = sources, capacity
        like = model.output_weight
        self._model = model
        self._table = _position_table(model.positions, capacity, like)
        blocks = cast(list[CrossAttendingBlock], model.decoder.blocks)
        self.layers = [_Layer(block, sentences, sentences * rows, sources, self._table) for block in blocks]
        self.position = torch.zeros(1, dtype=torch.int64, device=like.device)
        self._columns = torch.arange(capacity, device=like.device)
        self._source_bias = like.new_zeros(sentences, 1, 1, sources)
        # half of the lowest number, since it is added to a score and must stay finite
        self._hidden = torch.finfo(like.dtype).min / 2

    def start(self, memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> None:
        """Begin with sources that are read; `mask` is True at real tokens, of which every source has one."""
        self.position.zero_()
        self._source_bias[:, 0, 0] = torch.where(mask, 0.0, self._hidden)
        for layer in self.layers:
            projected = layer.cross.project_memory(memory)
            layer.memory_key.copy_(projected.key)
            layer.memory_value.copy_(projected.value)
            layer.cache.clear()

    def copy_sentences(
        self, other: StaticDecoder, sentences: Int[Tensor, "B"], rows: Int[Tensor, "R"], fed: int
    ) -> None:
        """Go on with these sentences of another decoder, whose rows, `rows`, were fed `fed` tokens."""
        self.position.copy_(other.position)
        torch.index_select(other._source_bias, 0, sentences, out=self._source_bias)
        for layer, source in zip(self.layers, other.layers, strict=True):
            torch.index_select(source.memory_key, 0, sentences, out=layer.memory_key)
            torch.index_select(source.memory_value, 0, sentences, out=layer.memory_value)
            cast(Any, layer.cache).copy_rows(source.cache, rows, fed)

    def step(self, tokens: Int[Tensor, "R"], parents: Int[Tensor, "R"] | None, length: int) -> Float[Tensor, "R V"]:
        """Return the logits of the token after `tokens`, each of which continues the row in `parents`, or its own.

        At most `length` tokens were fed, with these. `position` is theirs; moving it on is left to the caller.
        """
        model = self._model
        x = model.target_embedding(tokens[:, None]) + self._table.index_select(0, self.position)
        x = model.embedding_norm(x)
        biases = {window: self._bias(window, length) for window in {layer.window for layer in self.layers}}
        for layer in self.layers:
            if parents is not None:
                layer.cache.reorder(parents, length)
            x = self._block_step(layer, x, biases[layer.window], length)
        return model.project(model.decoder.final_norm(x)[:, 0])

    def _block_step(self, layer: _Layer, x: Tensor, bias: Tensor, length: int) -> Tensor:
        block = layer.block
        if layer.positions is not None:
            x = x + layer.positions.index_select(0, self.position)
        x = block.self_residual(x, lambda y: self._first(layer, y, bias, length))
        x = block.cross_residual(x, lambda y: self._attend_memory(layer, y))
        return cast(Tensor, block.feed_forward_residual(x, block.feed_forward))

    def _first(self, layer: _Layer, x: Tensor, bias: Tensor, length: int) -> Tensor:
        """The sub-layer that knows what was written."""
        if isinstance(layer.cache, StaticState):
            return cast(RecurrentDecoderBlock, layer.block).recurrence.step(x, layer.cache)
        q, k, v = layer.attention.project_self(x)
        if layer.rotations is not None:
            rotation = Rotation(layer.rotations.index_select(1, self.position), None)
            q, k = rotation(q), rotation(k)
        layer.cache.append(k, v, self.position)
        return _attended(layer.attention, q, *layer.cache.first(length), bias)

    def _attend_memory(self, layer: _Layer, x: Float[Tensor, "R 1 D"]) -> Float[Tensor, "R 1 D"]:
        # (B * rows, 1, D) -> (B, rows, D): no key or value is copied per hypothesis
        query = layer.cross.project_query(x.view(*self.shape, -1))
        return _attended(layer.cross, query, layer.memory_key, layer.memory_value, self._source_bias).view(x.shape)

    def _bias(self, window: Window | None, length: int) -> Float[Tensor, "1 1 1 L"]:
        """Return 0 at the positions that the newest sees, and a very low number at the others."""
        columns = self._columns[:length]
        visible = columns <= self.position
        if window is not None:
            is_global = (columns < window.global_tokens) | (self.position < window.global_tokens)
            visible = visible & ((self.position - columns <= window.size) | is_global)
        return torch.where(visible, 0.0, self._hidden).to(self._source_bias.dtype)[None, None, None]


def _attended(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """The output (B, T, D) of queries (B, H, T, K) over keys and values (B, G, S, K)."""
    comparison = cast(DotProductScorer, attention.comparison)
    scale = inverse_temperature(query, comparison.score, comparison.beta)
    heads, groups, targets = query.shape[1], key.shape[1], query.shape[2]
    # heads that share keys and values are as good as more queries: (B, H, T, K) -> (B, G, H / G * T, K)
    query = query.reshape(query.shape[0], groups, heads // groups * targets, query.shape[3])
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
    # (B, G, H / G * T, K) -> (B, H, T, K) -> (B, T, H * K)
    output = output.reshape(output.shape[0], heads, targets, output.shape[3]).transpose(1, 2).flatten(2)
    projected: Tensor = attention.out_projection(output)
    return projected


def _position_table(positions: Positions | nn.Module, length: int, like: Tensor) -> Float[Tensor, "C D"]:
    """Return what is added to the embeddings at the positions below `length`, in the type and on the device of `like`.

    The last row of learned positions stands for all behind it, which no hypothesis may have.
    """
    width = like.shape[1]
    if isinstance(positions, NoPositions):
        return like.new_zeros(length, width)
    reached = min(length, positions.max_positions) if isinstance(positions, LearnedPositions) else length
    table: Tensor = positions(like.new_zeros(1, reached, width))[0]
    return torch.cat([table, table[-1:].expand(length - reached, width)])
