"""Multi-head attention as nodes of ONNX, whose weights are a value of the graph."""

from __future__ import annotations

from typing import NamedTuple

import torch
from onnx import TensorProto

from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import linear
from dikkat.interop.onnx_export.position_nodes import PositionIds, rotate, score_bias, window_mask
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.scorers import AdditiveScore, AttentionScorer

LOWEST = torch.finfo(torch.float32).min
"""Score of what is hidden."""


class KeyValue(NamedTuple):
    """Keys and values (B, G, S, K) by heads, as values of a graph."""

    key: str
    value: str


class Attended(NamedTuple):
    """Hold the output (B, T, D) of attention and its weights (B, H, T, S), as values of a graph."""

    output: str
    weights: str


def key_mask(graph: Graph, attention_mask: str) -> str:
    """Return the mask (B, 1, 1, S) that is True where an `attention_mask` (B, S) of whole numbers is not 0."""
    return graph.unsqueeze(graph.op("Cast", attention_mask, to=TensorProto.BOOL), 1, 2)


def self_attention(
    graph: Graph,
    attention: MultiHeadAttention,
    x: str,
    mask: str | None,
    ids: PositionIds,
    past: KeyValue | None = None,
) -> tuple[Attended, KeyValue]:
    """Compute self-attention of `x` (B, T, D) after the `past`; returns all keys and values, too."""
    q, *rest = graph.split(linear(graph, attention.in_projection, x), attention.splits)
    q = split_heads(graph, q, attention.num_heads, attention.head_dim)
    k, v = (split_heads(graph, part, attention.num_kv_heads, attention.head_dim) for part in rest)
    if attention.rotary is not None:
        q, k = (rotate(graph, attention.head_dim, part, ids.queries) for part in (q, k))
    present = KeyValue(k, v)
    if past is not None:
        present = KeyValue(*(graph.op("Concat", *pair, axis=2) for pair in zip(past, (k, v), strict=True)))
    return _attend(graph, attention, q, present, mask, ids), present


def project_memory(graph: Graph, attention: MultiHeadAttention, memory: str) -> KeyValue:
    """Compute the keys and values of a memory (B, S, D)."""
    first = attention.splits[0]
    both = linear(graph, attention.in_projection, memory, slice(first, sum(attention.splits)))
    parts = graph.split(both, attention.splits[1:])
    return KeyValue(*(split_heads(graph, part, attention.num_kv_heads, attention.head_dim) for part in parts))


def cross_attention(graph: Graph, attention: MultiHeadAttention, x: str, memory: KeyValue, mask: str) -> Attended:
    """Compute attention of `x` (B, T, D) to the keys and values of a memory."""
    q = linear(graph, attention.in_projection, x, slice(0, attention.splits[0]))
    q = split_heads(graph, q, attention.num_heads, attention.head_dim)
    return _attend(graph, attention, q, memory, mask, None)


def split_heads(graph: Graph, x: str, heads: int, head_dim: int) -> str:
    """Return (B, T, H K) as (B, H, T, K)."""
    return graph.transpose(graph.reshape(x, 0, 0, heads, head_dim), 0, 2, 1, 3)


def _attend(
    graph: Graph, attention: MultiHeadAttention, q: str, memory: KeyValue, mask: str | None, ids: PositionIds | None
) -> Attended:
    k, v = (_repeated(graph, attention, part) for part in memory)
    scores = _scores(graph, attention, q, k, ids)
    if attention.window is not None and ids is not None:
        near = window_mask(graph, attention.window, ids)
        mask = near if mask is None else graph.op("And", mask, near)
    if mask is not None:
        scores = graph.op("Where", mask, scores, graph.number(LOWEST))
    weights = _selected(graph, attention, scores)
    if mask is not None:
        # a query that sees no key has zeros, not equal shares
        weights = graph.op("Where", mask, weights, graph.number(0.0))
    # (B, H, T, K) -> (B, T, H K)
    heads = graph.transpose(graph.op("MatMul", weights, v), 0, 2, 1, 3)
    output = graph.reshape(heads, 0, 0, attention.num_heads * attention.head_dim)
    return Attended(linear(graph, attention.out_projection, output), weights)


def _repeated(graph: Graph, attention: MultiHeadAttention, x: str) -> str:
    """Return keys or values (B, G, S, K) once for each query head, (B, H, S, K)."""
    if attention.num_kv_heads == attention.num_heads:
        return x
    group = attention.num_heads // attention.num_kv_heads
    copies = graph.op("Tile", graph.unsqueeze(x, 2), graph.ints(1, 1, group, 1, 1))
    # (B, G, group, S, K) -> (B, G group, S, K)
    shape = graph.op(
        "Concat", graph.size(x, 0), graph.ints(attention.num_heads), graph.op("Shape", x, start=2, end=4), axis=0
    )
    return graph.op("Reshape", copies, shape)


def _scores(graph: Graph, attention: MultiHeadAttention, q: str, k: str, ids: PositionIds | None) -> str:
    scorer = attention.comparison
    beta = inverse_temperature(torch.empty(1, attention.head_dim), scorer.score, scorer.beta)
    bias = scorer.bias if isinstance(scorer, AttentionScorer) else None
    if isinstance(scorer, AttentionScorer) and scorer.bilinear is not None:
        bilinear = scorer.bilinear
        q = graph.op("MatMul", q, graph.reshape(graph.weight(bilinear.weight), *bilinear.shape))
    scaled = graph.scale(q, beta)
    if isinstance(scorer.score, AdditiveScore):
        scores = graph.scale(_additive(graph, scorer.score, q, k), beta)
    else:
        scores = graph.op("MatMul", scaled, graph.transpose(k, 0, 1, 3, 2))
    return scores if bias is None or ids is None else graph.op("Add", scores, score_bias(graph, bias, scaled, ids))


def _additive(graph: Graph, score: AdditiveScore, q: str, k: str) -> str:
    # (B, H, T, 1, K) + (B, H, 1, S, K) -> (B, H, T, S, K), times (H, 1, K, 1)
    sums = graph.op("Tanh", graph.op("Add", graph.unsqueeze(q, 3), graph.unsqueeze(k, 2)))
    vector = graph.reshape(graph.weight(score.vector), *score.heads, 1, score.width, 1)
    return graph.op("Squeeze", graph.op("MatMul", sums, vector), graph.ints(-1))


def _selected(graph: Graph, attention: MultiHeadAttention, scores: str) -> str:
    """Return the weights of masked scores: shares of all keys, or one for the best."""
    scorer = attention.comparison
    if not isinstance(scorer, AttentionScorer) or scorer.selection == "soft":
        return graph.op("Softmax", scores, axis=-1)
    # the other rules differ in training alone
    winners = graph.op("ArgMax", scores, axis=-1, keepdims=1, select_last_index=0)
    one_hot = graph.op("Equal", winners, graph.range(None, graph.size(scores, 3)))
    return graph.op("Cast", one_hot, to=TensorProto.FLOAT)
