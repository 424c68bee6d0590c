"""Positions in Keras: tables that are added, rotations, and biases and masks by distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import keras
import torch
from keras import ops

from dikkat.interop.keras_export.layers import KerasTensor, Tables, array
from dikkat.nn.alibi import AlibiBias
from dikkat.nn.learned_positions import LearnedPositions
from dikkat.nn.named_positions import Positions, ScoreBias
from dikkat.nn.positions import SinusoidalPositions, sinusoids
from dikkat.nn.relative import RelativeKeys, distance_buckets
from dikkat.nn.rotary import rotations
from dikkat.nn.sliding_window import Window


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
