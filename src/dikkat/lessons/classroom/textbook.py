"""The Transformer of *Dive into Deep Learning*, sections 11.5 to 11.7, with valid lengths and kept attention weights.

Parts: `MultiHeadAttention`, `PositionalEncoding`, `PositionWiseFFN`, `AddNorm`. Whole: `TransformerEncoder`,
`TransformerDecoder`, `EncoderDecoder`. The arguments are those of the book's PyTorch code, in its order.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from dikkat import nn as ours
from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.scorers import HeadScore

Shape = int | Sequence[int]
State = list[Any]
"""`[enc_outputs, enc_valid_lens, caches]`, one cache a layer, None before the first token."""


def mask_of(valid_lens: Tensor | None, size: int) -> Tensor | None:
    """Return the mask of the first `valid_lens` of `size` keys, True where a query may attend; None without them."""
    return None if valid_lens is None else ours.valid_length_mask(valid_lens, size)


class MultiHeadAttention(nn.Module):
    """Attention of `num_heads` heads, of which `num_hiddens / num_heads` is the width of each."""

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.attention = ours.MultiHeadAttention(
            num_hiddens,
            num_heads,
            query_dim=query_size,
            key_dim=key_size,
            value_dim=value_size,
            dropout=dropout,
            bias=bias,
        )
        self.attention.read_weights(self._keep)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None) -> Tensor:
        """Attend to (B, T, num_hiddens); `valid_lens` is (B,), or (B, T) with one for each query."""
        return self.attention(queries, keys, values, mask_of(valid_lens, keys.shape[-2]))

    def _keep(self, weights: Tensor) -> None:
        # (B, H, T, S) -> (B * H, T, S)
        self.attention_weights = weights.flatten(0, 1)


class PositionalEncoding(nn.Module):
    """Adds sines and cosines to embeddings, then drops; any width, and longer than `max_len` too (fault F27)."""

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000) -> None:
        super().__init__()
        self.positions = ours.SinusoidalPositions(num_hiddens, initial_length=max_len)
        self.dropout = ours.Dropout(dropout)

    @property
    def P(self) -> Tensor:
        """The table (1, max_len, num_hiddens)."""
        return self.positions.table[None]

    def forward(self, X: Tensor, offset: int = 0) -> Tensor:
        """The first row of `X` is at position `offset` (fault F35)."""
        return self.dropout(self.positions(X, offset))


class PositionWiseFFN(nn.Module):
    """Two linear layers with ReLU between them, applied at every position alike."""

    def __init__(self, ffn_num_input: int, ffn_num_hiddens: int, ffn_num_outputs: int) -> None:
        super().__init__()
        self.ffn = ours.FeedForward(ffn_num_input, ffn_num_hiddens, output_dim=ffn_num_outputs)

    def forward(self, X: Tensor) -> Tensor:
        return self.ffn(X)


class AddNorm(nn.Module):
    """`norm(dropout(Y) + X)`, over the last entry of `norm_shape`: never over positions (fault F34)."""

    def __init__(self, norm_shape: Shape, dropout: float) -> None:
        super().__init__()
        self.residual = ours.PostNormResidual(last(norm_shape), dropout)

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        return self.residual(X, lambda _: Y)


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward network, each with add and norm."""

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: Shape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool = False,
    ) -> None:
        super().__init__()
        check_widths(num_hiddens, key_size, query_size, value_size, last(norm_shape), ffn_num_input)
        self.block = ours.EncoderBlock(num_hiddens, num_heads, ffn_num_hiddens, settings(dropout, use_bias))

    def forward(self, X: Tensor, valid_lens: Tensor | None) -> Tensor:
        return self.block(X, mask_of(valid_lens, X.shape[1]))


class DecoderBlock(nn.Module):
    """Masked self-attention, attention to the encoder, feed-forward network; the `i`-th of its decoder."""

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: Shape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        i: int,
    ) -> None:
        super().__init__()
        check_widths(num_hiddens, key_size, query_size, value_size, last(norm_shape), ffn_num_input)
        self.block = ours.DecoderBlock(num_hiddens, num_heads, ffn_num_hiddens, settings(dropout, False))
        self.i = i

    def forward(self, X: Tensor, state: State) -> tuple[Tensor, State]:
        """`X` follows what the state's cache of this layer holds, which grows."""
        return decoded(self.block, X, state, self.i), state


class TransformerEncoder(nn.Module):
    """Embeddings times √num_hiddens, positions, blocks; `attention_weights` are those of the last call."""

    def __init__(
        self,
        vocab_size: int,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: Shape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float,
        use_bias: bool = False,
        score: HeadScore = "scaled_dot",
    ) -> None:
        super().__init__()
        check_widths(num_hiddens, key_size, query_size, value_size, last(norm_shape), ffn_num_input)
        self.num_heads = num_heads
        self.embedding = ours.TokenEmbedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        sizes = num_hiddens, num_heads, ffn_num_hiddens, settings(dropout, use_bias, score)
        blocks = [ours.EncoderBlock(*sizes) for _ in range(num_layers)]
        self.blks = nn.ModuleList(blocks)
        self.attention_weights: list[Tensor] = []
        """(B * num_heads, num_steps, num_steps) of each layer."""
        for block in blocks:
            block.self_attention.read_weights(self._keep)

    def forward(self, X: Tensor, valid_lens: Tensor | None, *_: object) -> Tensor:
        """Encode ids (B, num_steps) to (B, num_steps, num_hiddens)."""
        self.attention_weights = []
        mask = mask_of(valid_lens, X.shape[1])
        x = self.pos_encoding(self.embedding(X))
        for block in self.blks:
            x = block(x, mask)
        return x

    def _keep(self, weights: Tensor) -> None:
        self.attention_weights.append(weights.flatten(0, 1))


class TransformerDecoder(nn.Module):
    """Embeddings, positions, blocks, and a linear layer with a bias over its own vocabulary."""

    def __init__(
        self,
        vocab_size: int,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: Shape,
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float,
        score: HeadScore = "scaled_dot",
    ) -> None:
        super().__init__()
        check_widths(num_hiddens, key_size, query_size, value_size, last(norm_shape), ffn_num_input)
        self.num_layers = num_layers
        self.embedding = ours.TokenEmbedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        sizes = num_hiddens, num_heads, ffn_num_hiddens, settings(dropout, False, score)
        blocks = [ours.DecoderBlock(*sizes) for _ in range(num_layers)]
        self.blks = nn.ModuleList(blocks)
        self.dense = nn.Linear(num_hiddens, vocab_size)
        self.attention_weights: list[list[Tensor]] = [[], []]
        """Of self-attention and of attention to the encoder, (B * num_heads, T, keys) of each layer."""
        for block in blocks:
            block.self_attention.read_weights(lambda weights: self.attention_weights[0].append(weights.flatten(0, 1)))
            block.cross_attention.read_weights(lambda weights: self.attention_weights[1].append(weights.flatten(0, 1)))

    def init_state(self, enc_outputs: Tensor, enc_valid_lens: Tensor | None, *_: object) -> State:
        return [enc_outputs, enc_valid_lens, [None] * self.num_layers]

    def forward(self, X: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, T, vocab_size): `X` follows what was decoded with this `state`, all at once or word by word."""
        self.attention_weights = [[], []]
        begun = state[2][0]
        x = self.pos_encoding(self.embedding(X), 0 if begun is None else begun.length)
        for i, block in enumerate(self.blks):
            x = decoded(cast(ours.DecoderBlock, block), x, state, i)
        return self.dense(x), state


class EncoderDecoder(nn.Module):
    """Logits of the target, given the source and its valid lengths."""

    def __init__(self, encoder: TransformerEncoder, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, enc_X: Tensor, dec_X: Tensor, enc_valid_lens: Tensor | None = None) -> tuple[Tensor, State]:
        state = self.decoder.init_state(self.encoder(enc_X, enc_valid_lens), enc_valid_lens)
        return self.decoder(dec_X, state)


class GrowingCache(SelfAttentionCache):
    """Keys and values so far, with their gradients: the same state serves training and writing."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self._key is not None and self._value is not None:
            key, value = torch.cat((self._key, key), dim=2), torch.cat((self._value, value), dim=2)
        self._key, self._value, self.length = key, value, key.shape[2]
        return key, value


def decoded(block: ours.DecoderBlock, x: Tensor, state: State, i: int) -> Tensor:
    """The three sub-layers on positions that follow those in the cache of layer `i`; the future is always hidden."""
    memory, valid_lens, caches = state
    cache = caches[i] = GrowingCache() if caches[i] is None else caches[i]
    length = x.shape[1]
    past = ours.causal_mask(length, cache.length + length, device=x.device)
    source = mask_of(valid_lens, memory.shape[1])
    x = block.self_residual(x, lambda y: block.self_attention(y, mask=past, cache=cache))
    x = block.cross_residual(x, lambda y: block.cross_attention(y, memory, mask=source))
    return block.feed_forward_residual(x, block.feed_forward)


def settings(dropout: float, use_bias: bool, score: HeadScore = "scaled_dot") -> ours.BlockSettings:
    """The book's choices: norm after the sum, dropout on attention weights and on the outputs of sub-layers."""
    return ours.BlockSettings(dropout=dropout, attention_dropout=dropout, attention_bias=use_bias, score=score)


def last(norm_shape: Shape) -> int:
    """The width that a norm goes over."""
    return norm_shape if isinstance(norm_shape, int) else norm_shape[-1]


def check_widths(num_hiddens: int, *widths: int) -> None:
    """Raise `ValueError` for a width with which residual sums would not be possible."""
    for width in widths:
        if width != num_hiddens:
            raise ValueError(f"every width of a block must be num_hiddens = {num_hiddens}, not {width}")
