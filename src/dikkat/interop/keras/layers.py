"""Attention, feed-forward and the blocks of both stacks as Keras layers, filled from our exported weights.

Shapes: `B` batch, `S` source, `T` target, `D` width, `H` heads, `K` width of a head. Masks: boolean, True = may attend.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from dikkat.config import ModelConfig
from dikkat.nn.positions import Layout, sinusoids

Weights = dict[str, NDArray[np.float32]]
"""Weights by our names; a layer removes what it takes."""
Tensor = Any
_ACTIVATIONS = {
    "relu": keras.activations.relu,
    "gelu": lambda x: keras.activations.gelu(x, approximate=False),
    "gelu_tanh": lambda x: keras.activations.gelu(x, approximate=True),
}
_HIDDEN = -1e30


class Composed(keras.layers.Layer):
    """Build nothing itself: its layers make their variables when they are first called."""

    def build(self, *shapes: Any, **named: Any) -> None:
        """Make no variables."""


class Attention(Composed):
    """Compute H attention heads side by side, between two linear layers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.head_dim = config.num_heads, config.head_dim or config.model_dim // config.num_heads
        beta = config.inverse_temperature
        self.beta = beta if beta is not None else self.head_dim**-0.5 if config.score == "scaled_dot" else 1.0
        width, bias, last = self.heads * self.head_dim, config.attention_bias, config.attention_output_bias
        self.query, self.key, self.value = (keras.layers.Dense(width, use_bias=bias) for _ in range(3))
        self.output_layer = keras.layers.Dense(config.model_dim, use_bias=bias if last is None else last)
        self.dropout = keras.layers.Dropout(config.attention_dropout)

    def call(self, x: Tensor, memory: Tensor, mask: Tensor, training: bool = False) -> Tensor:
        """Attend from queries of `x` (B, T, D) to keys and values of `memory` (B, S, D); `mask` fits (B, H, T, S)."""
        query, key, value = (self._split(y) for y in (self.query(x), self.key(memory), self.value(memory)))
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3)) * self.beta
        weights = ops.where(mask, ops.softmax(ops.where(mask, scores, _HIDDEN), axis=-1), 0.0)
        output = ops.matmul(self.dropout(weights, training=training), value)
        # (B, H, T, K) -> (B, T, H * K)
        output = ops.reshape(ops.swapaxes(output, 1, 2), (*ops.shape(x)[:2], self.heads * self.head_dim))
        return self.output_layer(output)

    def fill(self, weights: Weights, name: str) -> None:
        """Take the weights under `name`."""
        for kind in ("weight", "bias"):
            if (packed := weights.pop(f"{name}.in_projection.{kind}", None)) is not None:
                for part, own in zip(("query", "key", "value"), np.split(packed, 3), strict=True):
                    weights[f"{name}.{part}.{kind}"] = own
        for part in ("query", "key", "value"):
            fill_dense(getattr(self, part), weights, f"{name}.{part}")
        fill_dense(self.output_layer, weights, f"{name}.out_projection")

    def _split(self, x: Tensor) -> Tensor:
        # (B, T, H * K) -> (B, H, T, K)
        return ops.swapaxes(ops.reshape(x, (*ops.shape(x)[:2], self.heads, self.head_dim)), 1, 2)


class FeedForward(Composed):
    """Apply linear, activation, linear."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(config.feed_forward_dim, activation=_ACTIVATIONS[config.activation])
        self.outer = keras.layers.Dense(config.model_dim)

    def call(self, x: Tensor) -> Tensor:
        """Return the output (B, T, D) for `x` (B, T, D)."""
        return self.outer(self.inner(x))

    def fill(self, weights: Weights, name: str) -> None:
        """Take the weights under `name`."""
        fill_dense(self.inner, weights, f"{name}.inner")
        fill_dense(self.outer, weights, f"{name}.outer")


class Block(Composed):
    """Apply self-attention, cross-attention if it `reads` a source, and feed-forward.

    Each is wrapped in a residual sum and a norm.
    """

    def __init__(self, config: ModelConfig, *, reads: bool = False) -> None:
        super().__init__()
        self.post_norm = config.norm_placement == "post"
        self.self_attention, self.feed_forward = Attention(config), FeedForward(config)
        self.cross_attention = Attention(config) if reads else None
        self.self_norm, self.cross_norm, self.feed_forward_norm = (norm(config) for _ in range(3))
        self.dropout = keras.layers.Dropout(config.dropout)

    def call(
        self, x: Tensor, mask: Tensor, memory: Tensor = None, memory_mask: Tensor = None, training: bool = False
    ) -> Tensor:
        """Return the output (B, T, D) for `x` (B, T, D) and, if the block reads a source, `memory` (B, S, D)."""
        x = self._residual(self.self_norm, x, lambda y: self.self_attention(y, y, mask, training=training), training)
        if self.cross_attention is not None:
            cross = self.cross_attention
            x = self._residual(self.cross_norm, x, lambda y: cross(y, memory, memory_mask, training=training), training)
        return self._residual(self.feed_forward_norm, x, self.feed_forward, training)

    def fill(self, weights: Weights, name: str) -> None:
        """Take the weights under `name`."""
        self.self_attention.fill(weights, f"{name}.self_attention")
        fill_norm(self.self_norm, weights, f"{name}.self_residual.norm")
        if self.cross_attention is not None:
            self.cross_attention.fill(weights, f"{name}.cross_attention")
            fill_norm(self.cross_norm, weights, f"{name}.cross_residual.norm")
        self.feed_forward.fill(weights, f"{name}.feed_forward")
        fill_norm(self.feed_forward_norm, weights, f"{name}.feed_forward_residual.norm")

    def _residual(self, norm: Any, x: Tensor, sub_layer: Any, training: bool) -> Tensor:
        if self.post_norm:
            return norm(x + self.dropout(sub_layer(x), training=training))
        return x + self.dropout(sub_layer(norm(x)), training=training)


class Embedding(Composed):
    """Map ids to vectors with their positions; the matrix may also give the logits."""

    def __init__(self, config: ModelConfig, vocab_size: int | None = None) -> None:
        """The matrix has `vocab_size` rows, by default those of `config`."""
        super().__init__()
        self.config = config
        self.scale = config.model_dim**0.5 if config.scale_embeddings else 1.0
        self.tokens = keras.layers.Embedding(vocab_size or config.vocab_size, config.model_dim)
        self.norm = norm(config) if config.embedding_norm else None
        self.dropout = keras.layers.Dropout(config.dropout)
        self.table = keras.layers.Embedding(config.max_positions, config.model_dim)
        self.has_learned_positions = config.positions == "learned"

    def call(self, ids: Tensor, training: bool = False) -> Tensor:
        """Return the vectors (B, S, D) of `ids` (B, S)."""
        x = self.tokens(ids) * self.scale + self._positions(ids.shape[1])
        return self.dropout(x if self.norm is None else self.norm(x), training=training)

    def project(self, x: Tensor) -> Tensor:
        """Return the logits (B, T, V) of `x` (B, T, D)."""
        return ops.matmul(x, ops.transpose(self.tokens.embeddings))

    def fill(self, weights: Weights, name: str) -> None:
        """Take the weights under `name`."""
        self.tokens.embeddings.assign(weights.pop(name))
        if self.has_learned_positions and "positions.embedding" in weights:
            self.table.embeddings.assign(weights.pop("positions.embedding"))
        if self.norm is not None and "embedding_norm.weight" in weights:
            fill_norm(self.norm, weights, "embedding_norm")

    def _positions(self, length: int) -> Tensor:
        if self.has_learned_positions:
            return self.table(ops.arange(length))
        layout: Layout = "interleaved" if self.config.positions == "sinusoidal" else "concatenated"
        return ops.convert_to_tensor(sinusoids(length, self.config.model_dim, layout).numpy())


def norm(config: ModelConfig) -> Any:
    """Return a layer norm over the features."""
    return keras.layers.LayerNormalization(epsilon=config.norm_eps)


def fill_dense(layer: Any, weights: Weights, name: str) -> None:
    """Fill a dense layer; Keras stores a matrix as (inputs, outputs)."""
    layer.kernel.assign(weights.pop(f"{name}.weight").T)
    if layer.use_bias:
        layer.bias.assign(weights.pop(f"{name}.bias"))


def fill_norm(layer: Any, weights: Weights, name: str) -> None:
    """Fill a norm."""
    layer.gamma.assign(weights.pop(f"{name}.weight"))
    layer.beta.assign(weights.pop(f"{name}.bias"))
