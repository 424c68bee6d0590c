"""Multi-head attention in Keras, whose weights are a value of the model."""

from __future__ import annotations

from typing import NamedTuple

import keras
import torch
from keras import ops

from dikkat.interop.keras_export.layers import KerasTensor, Tables, array, dropout, linear
from dikkat.interop.keras_export.positions import PositionIds, rotate, score_bias, window_mask
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.scorers import AttentionScorer
from dikkat.nn.scores import AdditiveScore, BilinearScore

_LOWEST = -1e30


class KeyValue(NamedTuple):
    """Keys and values (B, G, S, K) by heads."""

    key: KerasTensor
    value: KerasTensor


class Attended(NamedTuple):
    """Hold the output (B, T, D) of attention and its weights (B, H, T, S)."""

    output: KerasTensor
    weights: KerasTensor


def project_self(
    tables: Tables, attention: MultiHeadAttention, x: KerasTensor, ids: KerasTensor, name: str
) -> tuple[KerasTensor, KeyValue]:
    """Compute queries (B, H, T, K), keys and values of `x` (B, T, D), at the positions `ids` (B, T)."""
    queries = project_query(attention, x, name)
    key, value = project_memory(attention, x, name)
    if attention.rotary is not None:
        queries, key = rotate(tables, queries, ids), rotate(tables, key, ids)
    return queries, KeyValue(key, value)


def project_query(attention: MultiHeadAttention, x: KerasTensor, name: str) -> KerasTensor:
    """Compute the queries (B, H, T, K) of `x` (B, T, D)."""
    product = linear(attention.in_projection, x, f"{name}_query", slice(0, attention.splits[0]))
    return _split_heads(attention, product, attention.num_heads)


def project_memory(attention: MultiHeadAttention, memory: KerasTensor, name: str) -> KeyValue:
    """Compute the keys and values of a memory (B, S, D)."""
    first, second, _ = attention.splits
    bounds = (("key", slice(first, first + second)), ("value", slice(first + second, None)))
    products = (linear(attention.in_projection, memory, f"{name}_{part}", rows) for part, rows in bounds)
    return KeyValue(*(_split_heads(attention, product, attention.num_kv_heads) for product in products))


def attend(
    tables: Tables,
    attention: MultiHeadAttention,
    queries: KerasTensor,
    memory: KeyValue,
    mask: KerasTensor,
    name: str,
    ids: PositionIds | None = None,
) -> Attended:
    """Compute attention of queries (B, H, T, K) to keys and values, where a `mask` of (B, H, T, S) is True.

    `ids` are the positions of self-attention.
    """
    group = attention.num_heads // attention.num_kv_heads
    key, value = (part if group == 1 else ops.repeat(part, group, axis=1) for part in memory)
    scores = _scores(tables, attention, queries, key, ids, name)
    if attention.window is not None and ids is not None:
        mask = ops.logical_and(mask, window_mask(attention.window, ids))
    weights = _selected(attention, ops.where(mask, scores, _LOWEST))
    # a query that sees no key has zeros, not equal shares
    weights = ops.where(mask, weights, 0.0)
    heads = ops.matmul(dropout(weights, attention.dropout), value)
    # (B, H, T, K) -> (B, T, H K)
    output = keras.layers.Reshape((-1, attention.num_heads * attention.head_dim))(ops.transpose(heads, (0, 2, 1, 3)))
    return Attended(linear(attention.out_projection, output, f"{name}_output"), weights)


def _split_heads(attention: MultiHeadAttention, x: KerasTensor, heads: int) -> KerasTensor:
    # (B, T, H K) -> (B, H, T, K)
    return ops.transpose(keras.layers.Reshape((-1, heads, attention.head_dim))(x), (0, 2, 1, 3))


def _scores(
    tables: Tables,
    attention: MultiHeadAttention,
    queries: KerasTensor,
    key: KerasTensor,
    ids: PositionIds | None,
    name: str,
) -> KerasTensor:
    scorer = attention.comparison
    beta = inverse_temperature(torch.empty(1, attention.head_dim), scorer.score, scorer.beta)
    bias = scorer.bias if isinstance(scorer, AttentionScorer) else None
    if isinstance(scorer, AttentionScorer) and scorer.bilinear is not None:
        queries = _bilinear(scorer.bilinear, queries, name)
    scaled = queries * beta
    if isinstance(scorer.score, AdditiveScore):
        scores = _additive(scorer.score, queries, key, name) * beta
    else:
        scores = ops.matmul(scaled, ops.transpose(key, (0, 1, 3, 2)))
    return scores if bias is None or ids is None else scores + score_bias(tables, bias, scaled, ids, name)


def _additive(score: AdditiveScore, queries: KerasTensor, key: KerasTensor, name: str) -> KerasTensor:
    # (B, H, T, 1, K) + (B, H, 1, S, K) -> (B, H, T, S, K), times (H, K)
    sums = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(key, 2))
    heads = queries.shape[1]
    layer = keras.layers.EinsumDense("bhtsk,hk->bhts", (heads, None, None), name=f"{name}_score")
    scores = layer(sums)
    layer.set_weights([array(score.vector).reshape(heads, score.width)])
    return scores


def _bilinear(score: BilinearScore, queries: KerasTensor, name: str) -> KerasTensor:
    heads, _, width = score.shape
    layer = keras.layers.EinsumDense("bhtk,hkl->bhtl", (heads, None, width), name=f"{name}_score")
    product = layer(queries)
    layer.set_weights([array(score.weight).reshape(score.shape)])
    return product


def _selected(attention: MultiHeadAttention, scores: KerasTensor) -> KerasTensor:
    """Return the weights of masked scores: shares of all keys, or one for the best."""
    scorer = attention.comparison
    if not isinstance(scorer, AttentionScorer) or scorer.selection == "soft":
        return ops.softmax(scores, axis=-1)
    # the other rules differ in training alone; of equal scores the first is the best
    is_best = ops.cast(ops.equal(scores, ops.max(scores, axis=-1, keepdims=True)), scores.dtype)
    return is_best * ops.cast(ops.equal(ops.cumsum(is_best, axis=-1), 1.0), scores.dtype)
