"""Linear layers, tables, norms, residual sums and feed-forward networks as layers of Keras, filled with weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np
import torch
from keras import ops
from torch import Tensor, nn

from dikkat.interop.exported_texts import TABLE_ROWS
from dikkat.nn.blocks import PreNormResidual, Residual
from dikkat.nn.layers import FeedForward, GatedFeedForward, RMSNorm
from dikkat.nn.named_positions import Positions, ScoreBias
from dikkat.nn.positions import LearnedPositions, SinusoidalPositions, sinusoids
from dikkat.nn.relative import AlibiBias, RelativeKeys, distance_buckets
from dikkat.nn.rotary import rotations
from dikkat.nn.sliding_window import Window

KerasTensor = Any
"""A value of a functional model, which has no types of its own here."""


class Tables:
    """Hold the layers that are used more than once, by the source of their weights.

    Tables of computed positions have so many `rows`.
    """

    def __init__(self, rows: int = TABLE_ROWS) -> None:
        self.rows = rows
        self._layers: dict[object, Any] = {}

    def table(self, source: object, rows: Tensor, name: str, *, trainable: bool = True) -> Any:
        """Return the embedding with the `rows` (V, D) of `source`, which also multiplies by them if it is reversed."""
        if source not in self._layers:
            size, width = rows.shape
            layer = keras.layers.ReversibleEmbedding(size, width, trainable=trainable, name=name)
            layer.build()
            layer.set_weights([array(rows)])
            self._layers[source] = layer
        return self._layers[source]

    def norm(self, layer: nn.Module, x: KerasTensor, name: str) -> KerasTensor:
        """Compute a layer norm, a root-mean-square norm or nothing at all."""
        if isinstance(layer, nn.Identity):
            return x
        if layer not in self._layers:
            self._layers[layer] = _norm(layer, name)
        return self._layers[layer](x)


def linear(layer: nn.Linear, x: KerasTensor, name: str, rows: slice = slice(None)) -> KerasTensor:
    """Compute a linear layer of `x`, or only the outputs `rows` of it."""
    # (outputs, inputs) -> (inputs, outputs)
    weights = [array(layer.weight[rows]).T]
    if layer.bias is not None:
        weights.append(array(layer.bias[rows]))
    dense = keras.layers.Dense(weights[0].shape[1], use_bias=layer.bias is not None, name=name)
    product = dense(x)
    dense.set_weights(weights)
    return product


def dropout(x: KerasTensor, probability: float) -> KerasTensor:
    """Drop entries of `x` in training."""
    return keras.layers.Dropout(probability)(x) if probability else x


def residual(
    tables: Tables, wrapper: Residual, x: KerasTensor, sub_layer: Callable[[KerasTensor], KerasTensor], name: str
) -> KerasTensor:
    """Compute a residual sum of `x` and its sub-layer, with the norm before or after it."""
    norm_name = f"{name}_norm"
    if isinstance(wrapper, PreNormResidual):
        y = sub_layer(tables.norm(wrapper.norm, x, norm_name))
        return x + dropout(y, wrapper.dropout.probability)
    total = x + dropout(sub_layer(x), wrapper.dropout.probability)
    return tables.norm(wrapper.norm, total, norm_name)


def feed_forward(network: FeedForward | GatedFeedForward, x: KerasTensor, name: str) -> KerasTensor:
    """Compute a feed-forward network, gated or not."""
    hidden = linear(network.inner, x, f"{name}_inner")
    activation = _ACTIVATIONS[network.activation]
    if isinstance(network, GatedFeedForward):
        gate, content = ops.split(hidden, 2, axis=-1)
        hidden = activation(gate) * content
    else:
        hidden = activation(hidden)
    return linear(network.outer, hidden, f"{name}_outer")


def array(values: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    return values.detach().cpu().numpy()


def _norm(layer: nn.Module, name: str) -> Any:
    if isinstance(layer, nn.LayerNorm):
        keras_norm = keras.layers.LayerNormalization(epsilon=layer.eps, name=name)
        weights = [array(layer.weight), array(layer.bias)]
    elif isinstance(layer, RMSNorm):
        keras_norm = keras.layers.RMSNormalization(epsilon=layer.eps or 0.0, name=name)
        weights = [array(layer.weight)]
    else:
        raise TypeError(f"no Keras layer is known for the norm {type(layer).__name__}")
    keras_norm.build((None, None, len(weights[0])))
    keras_norm.set_weights(weights)
    return keras_norm


_ACTIVATIONS: dict[str, Callable[[KerasTensor], KerasTensor]] = {
    "relu": ops.relu,
    "silu": ops.silu,
    "gelu": partial(ops.gelu, approximate=False),
    "gelu_tanh": partial(ops.gelu, approximate=True),
    "geglu": partial(ops.gelu, approximate=False),
    "swiglu": ops.silu,
}
"""Operations of an activation, or of the gate of a gated network, by its name."""


# Positions in Keras: tables that are added, rotations, and biases and masks by distance.


@dataclass(frozen=True)
class PositionIds:
    """Hold the positions of the queries (B, T) and of the keys (B, S) of sequences; -1 is a key that is none yet."""

    queries: KerasTensor
    keys: KerasTensor

    @cached_property
    def distances(self) -> KerasTensor:
        """Position of each key minus that of each query, (B, T, S)."""
        return ops.expand_dims(self.keys, 1) - ops.expand_dims(self.queries, 2)

    @cached_property
    def causal_mask(self) -> KerasTensor:
        """True at keys up to the query's own position, (B, 1, T, S)."""
        return self._mask_of(ops.less_equal(self.distances, 0))

    def prefix_mask(self, lengths: KerasTensor) -> KerasTensor:
        """Return the mask (B, 1, T, S) that also shows the first keys of each row, `lengths` (B, 1) of them."""
        is_prefix = ops.expand_dims(ops.less(self.keys, lengths), 1)
        return self._mask_of(ops.logical_or(ops.less_equal(self.distances, 0), is_prefix))

    def _mask_of(self, is_shown: KerasTensor) -> KerasTensor:
        # (B, T, S) -> (B, 1, T, S)
        is_there = ops.greater_equal(ops.expand_dims(self.keys, 1), 0)
        return ops.expand_dims(ops.logical_and(is_shown, is_there), 1)


def add_positions(
    tables: Tables, positions: Positions, x: KerasTensor, ids: KerasTensor, name: str = "positions"
) -> KerasTensor:
    """Add to `x` (B, T, D) what the positions `ids` (B, T) add to an embedding."""
    if isinstance(positions, SinusoidalPositions):
        rows = sinusoids(tables.rows, positions.model_dim, positions.layout)
        return x + tables.table(("sinusoids", positions.layout), rows, "sinusoids", trainable=False)(ids)
    if isinstance(positions, LearnedPositions):
        return x + tables.table(positions.embedding, positions.embedding, name)(ids)
    return x


def rotate(tables: Tables, x: KerasTensor, ids: KerasTensor) -> KerasTensor:
    """Turn pairs (2j, 2j+1) of heads (B, H, T, K) by the angles of the positions `ids` (B, T)."""
    _, heads, _, width = x.shape
    # (B, T) -> (B, 1, T, K/2, 1)
    cosine, sine = (
        ops.expand_dims(tables.table(("rotary", name), rows, f"rotary_{name}", trainable=False)(ids), (1, -1))
        for name, rows in zip(("cosines", "sines"), rotations(tables.rows, width), strict=True)
    )
    # (B, H, T, K) -> 2 x (B, H, T, K/2, 1)
    first, second = ops.split(keras.layers.Reshape((heads, -1, width // 2, 2))(x), 2, axis=-1)
    rotated = ops.concatenate((first * cosine - second * sine, first * sine + second * cosine), axis=-1)
    return keras.layers.Reshape((heads, -1, width))(rotated)


def score_bias(tables: Tables, bias: ScoreBias, query: KerasTensor, ids: PositionIds, name: str) -> KerasTensor:
    """Compute what positions add to the scores of scaled queries (B, H, T, K), broadcastable to (B, H, T, S)."""
    if isinstance(bias, AlibiBias):
        away = ops.expand_dims(ops.cast(ops.abs(ids.distances), query.dtype), 1)
        return away * array(-bias.slopes[None, :, None, None])
    most = bias.max_distance
    # beyond `most` either way all distances are the same
    rows = ops.clip(ids.distances, -most, most) + most
    if isinstance(bias, RelativeKeys):
        vectors = tables.table(bias.embedding, bias.embedding, f"{name}_distances")(rows)
        return ops.einsum("bhtk,btsk->bhts", query, vectors)
    away = torch.arange(-most, most + 1)[None]
    buckets = distance_buckets(away, bias.num_buckets, most, bias.bidirectional)[0]
    biases = tables.table(bias.embedding, bias.embedding, f"{name}_buckets")(ops.take(array(buckets), rows))
    # (B, T, S, H) -> (B, H, T, S)
    return ops.transpose(biases, (0, 3, 1, 2))


def window_mask(window: Window, ids: PositionIds) -> KerasTensor:
    """Return the mask (B, 1, T, S) of the keys that a window lets each query see."""
    near = ops.less_equal(ops.abs(ids.distances), window.size)
    if window.global_tokens:
        is_global_key = ops.expand_dims(ops.less(ids.keys, window.global_tokens), 1)
        is_global_query = ops.expand_dims(ops.less(ids.queries, window.global_tokens), 2)
        near = ops.logical_or(near, ops.logical_or(is_global_key, is_global_query))
    if window.causal:
        near = ops.logical_and(near, ops.less_equal(ids.distances, 0))
    return ops.expand_dims(near, 1)
