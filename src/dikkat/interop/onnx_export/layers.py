"""Linear layers, norms, residual sums and feed-forward networks as nodes of ONNX."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from onnx import TensorProto
from torch import nn

from dikkat.interop.onnx_export.graph import Graph
from dikkat.nn.blocks import PostNormResidual, PreNormResidual, Residual
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.layers import FeedForward, GatedFeedForward, RMSNorm
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import Positions, ScoreBias
from dikkat.nn.positions import LearnedPositions, SinusoidalPositions, sinusoids
from dikkat.nn.relative import AlibiBias, BucketBias, RelativeKeys, distance_buckets
from dikkat.nn.rotary import rotations
from dikkat.nn.scorers import AdditiveScore, AttentionScorer
from dikkat.nn.sliding_window import Window

# Positions as nodes of ONNX: tables that are added, rotations, and biases and masks by distance.


@dataclass(frozen=True)
class PositionIds:
    """Hold the positions of the queries (T,) and of the keys (S,) of one sequence, as values of a graph.

    Rows of a batch may begin with `padding` (B, 1). What depends on distances alone counts it in, and learned or fixed
    positions are those that each query has `in_rows` (B, T).
    """

    graph: Graph
    queries: str
    keys: str
    in_rows: str | None = None
    padding: str | None = None

    @property
    def table_rows(self) -> str:
        """Rows (T,) or (B, T) of the queries in a table of positions."""
        return self.in_rows or self.queries

    def first(self, positions: str, count: int) -> str:
        """True at the first `count` tokens of each row, (B, T) or (1, T)."""
        numbers = self.graph.unsqueeze(positions, 0)
        if self.padding is not None:
            numbers = self.graph.op("Sub", numbers, self.padding)
        return self.graph.op("Less", numbers, self.graph.ints(count))

    @cached_property
    def distances(self) -> str:
        """Position of each key minus that of each query, (T, S)."""
        graph = self.graph
        return graph.op("Sub", graph.unsqueeze(self.keys, 0), graph.unsqueeze(self.queries, 1))

    @cached_property
    def causal_mask(self) -> str:
        """True at keys up to the query's own position, (T, S)."""
        return self.graph.op("LessOrEqual", self.distances, self.graph.ints(0))


def add_positions(graph: Graph, positions: Positions, x: str, ids: str) -> str:
    """Add to `x` (B, T, D) what the positions `ids` (T,) or (B, T) add to an embedding."""
    if isinstance(positions, SinusoidalPositions):
        values = sinusoids(graph.table_rows, positions.model_dim, positions.layout)
        table = graph.table(f"positions.{positions.layout}", values)
    elif isinstance(positions, LearnedPositions):
        table = graph.weight(positions.embedding)
    else:
        return x
    return graph.op("Add", x, graph.op("Gather", table, ids))


def rotate(graph: Graph, head_dim: int, x: str, ids: str) -> str:
    """Turn pairs (2j, 2j+1) of heads (B, H, T, K) by the angles of the positions `ids` (T,)."""
    # (2, rows, K/2, 1), of which (T, K/2, 1) is taken
    tables = zip(("cosines", "sines"), rotations(graph.table_rows, head_dim)[..., None], strict=True)
    cosine, sine = (graph.op("Gather", graph.table(f"rotary.{name}", table), ids) for name, table in tables)
    # (B, H, T, K) -> 2 x (B, H, T, K/2, 1)
    first, second = graph.split(graph.reshape(x, 0, 0, 0, head_dim // 2, 2), (1, 1))
    rotated_first = graph.op("Sub", graph.op("Mul", first, cosine), graph.op("Mul", second, sine))
    rotated_second = graph.op("Add", graph.op("Mul", first, sine), graph.op("Mul", second, cosine))
    return graph.reshape(graph.op("Concat", rotated_first, rotated_second, axis=-1), 0, 0, 0, head_dim)


def score_bias(graph: Graph, bias: ScoreBias, query: str, ids: PositionIds) -> str:
    """Compute what positions add to the scores of scaled queries (B, H, T, K), broadcastable to (B, H, T, S)."""
    if isinstance(bias, AlibiBias):
        away = graph.op("Cast", graph.op("Abs", ids.distances), to=1)
        return graph.op("Mul", away, graph.table("alibi", -bias.slopes[:, None, None]))
    rows = _clipped_distances(graph, ids, bias.max_distance)
    if isinstance(bias, RelativeKeys):
        # (B, H, T, K) x (K, 2m+1) -> (B, H, T, 2m+1) -> (B, H, T, S)
        by_distance = graph.op("MatMul", query, graph.weight(bias.embedding, transposed=True))
        shape = graph.op("Concat", graph.op("Shape", query, start=0, end=2), graph.op("Shape", rows), axis=0)
        return graph.op("GatherElements", by_distance, graph.op("Expand", rows, shape), axis=-1)
    # (T, S, H) -> (H, T, S)
    return graph.transpose(graph.op("Gather", _bucket_table(graph, bias), rows), 2, 0, 1)


def window_mask(graph: Graph, window: Window, ids: PositionIds) -> str:
    """Return the mask (T, S), or (B, 1, T, S), of the keys that a window lets each query see."""
    near = graph.op("LessOrEqual", graph.op("Abs", ids.distances), graph.ints(window.size))
    if window.global_tokens:
        # (B, S) -> (B, 1, 1, S) and (B, T) -> (B, 1, T, 1)
        global_key = graph.unsqueeze(ids.first(ids.keys, window.global_tokens), 1, 2)
        global_query = graph.unsqueeze(ids.first(ids.queries, window.global_tokens), 1, 3)
        near = graph.op("Or", near, graph.op("Or", global_key, global_query))
    return graph.op("And", near, ids.causal_mask) if window.causal else near


def _clipped_distances(graph: Graph, ids: PositionIds, most: int) -> str:
    """Return distances (T, S) from 0 to 2 `most`: beyond `most` either way all are the same."""
    least = graph.op("Max", ids.distances, graph.ints(-most))
    return graph.op("Add", graph.op("Min", least, graph.ints(most)), graph.ints(most))


def _bucket_table(graph: Graph, bias: BucketBias) -> str:
    """Return the biases (2m+1, H) of all distances from -m to m, beyond which all share a bucket."""
    most = bias.max_distance
    away = torch.arange(-most, most + 1)[None]
    buckets = distance_buckets(away, bias.num_buckets, most, bias.bidirectional)[0]
    return graph.op("Gather", graph.weight(bias.embedding), graph.ints(*buckets.tolist()))


def linear(graph: Graph, layer: nn.Linear, x: str, rows: slice | None = None) -> str:
    """Compute a linear layer of `x`, or only the outputs `rows` of it."""
    product = graph.op("MatMul", x, graph.weight(layer.weight, rows, transposed=True))
    return product if layer.bias is None else graph.op("Add", product, graph.weight(layer.bias, rows))


def norm(graph: Graph, layer: nn.Module, x: str) -> str:
    """Compute a layer norm, a root-mean-square norm or nothing at all."""
    if isinstance(layer, nn.LayerNorm):
        parameters = [graph.weight(layer.weight), graph.weight(layer.bias)]
        return graph.op("LayerNormalization", x, *parameters, axis=-1, epsilon=layer.eps)
    if isinstance(layer, RMSNorm):
        squares = graph.op("ReduceMean", graph.op("Mul", x, x), axes=[-1], keepdims=1)
        root = graph.op("Sqrt", graph.op("Add", squares, graph.number(layer.eps or 0.0)))
        return graph.op("Mul", graph.op("Div", x, root), graph.weight(layer.weight))
    if isinstance(layer, nn.Identity):
        return x
    raise TypeError(f"no nodes are known for the norm {type(layer).__name__}")


def residual_input(graph: Graph, residual: Residual, x: str) -> str:
    """Compute what the sub-layer of a residual wrapper reads."""
    return norm(graph, residual.norm, x) if isinstance(residual, PreNormResidual) else x


def residual_sum(graph: Graph, residual: Residual, x: str, y: str) -> str:
    """Compute the sum of a residual wrapper, `y` being the output of its sub-layer."""
    total = graph.op("Add", x, y)
    return norm(graph, residual.norm, total) if isinstance(residual, PostNormResidual) else total


def feed_forward(graph: Graph, residual: Residual, network: FeedForward | GatedFeedForward, x: str) -> str:
    """Compute the feed-forward sub-layer of a block and its residual sum."""
    hidden = linear(graph, network.inner, residual_input(graph, residual, x))
    if isinstance(network, GatedFeedForward):
        gate, content = graph.split(hidden, [network.inner.out_features // 2] * 2)
        hidden = graph.op("Mul", ACTIVATIONS[network.activation](graph, gate), content)
    else:
        hidden = ACTIVATIONS[network.activation](graph, hidden)
    return residual_sum(graph, residual, x, linear(graph, network.outer, hidden))


def _silu(graph: Graph, x: str) -> str:
    return graph.op("Mul", x, graph.op("Sigmoid", x))


def _gelu(graph: Graph, x: str) -> str:
    spread = graph.op("Erf", graph.op("Div", x, graph.number(math.sqrt(2.0))))
    return graph.scale(graph.op("Mul", x, graph.op("Add", spread, graph.number(1.0))), 0.5)


def _gelu_tanh(graph: Graph, x: str) -> str:
    cube = graph.op("Mul", graph.op("Mul", x, x), x)
    inner = graph.scale(graph.op("Add", x, graph.scale(cube, 0.044715)), math.sqrt(2.0 / math.pi))
    return graph.scale(graph.op("Mul", x, graph.op("Add", graph.op("Tanh", inner), graph.number(1.0))), 0.5)


ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "relu": lambda graph, x: graph.op("Relu", x),
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "geglu": _gelu,
    "swiglu": _silu,
}
"""Nodes of an activation, or of the gate of a gated network, by its name."""


# Multi-head attention as nodes of ONNX, whose weights are a value of the graph.

LOWEST = torch.finfo(torch.float32).min
"""Score of what is hidden."""


class KeyValue(NamedTuple):
    """Keys and values (B, G, S, K) by heads, as values of a graph."""

    key: str
    value: str


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
) -> tuple[str, KeyValue]:
    """Compute self-attention (B, T, D) of `x` (B, T, D) after the `past`; returns all keys and values, too."""
    q, *rest = graph.split(linear(graph, attention.in_projection, x), attention.splits)
    q = split_heads(graph, q, attention.num_heads, attention.head_dim)
    k, v = (split_heads(graph, part, attention.num_kv_heads, attention.head_dim) for part in rest)
    if attention.rotary is not None:
        q, k = (rotate(graph, attention.head_dim, part, ids.queries) for part in (q, k))
    present = KeyValue(k, v)
    if past is not None:
        present = KeyValue(*(graph.op("Concat", *pair, axis=2) for pair in zip(past, (k, v), strict=True)))
    output, _ = _attend(graph, attention, q, present, mask, ids)
    return output, present


def project_memory(graph: Graph, attention: MultiHeadAttention, memory: str) -> KeyValue:
    """Compute the keys and values of a memory (B, S, D)."""
    both = linear(graph, attention.in_projection, memory, slice(attention.splits[0], sum(attention.splits)))
    parts = graph.split(both, attention.splits[1:])
    return KeyValue(*(split_heads(graph, part, attention.num_kv_heads, attention.head_dim) for part in parts))


def cross_attention(
    graph: Graph, attention: MultiHeadAttention, x: str, memory: KeyValue, mask: str
) -> tuple[str, str]:
    """Compute attention of `x` (B, T, D) to a memory: the output (B, T, D) and the weights (B, H, T, S)."""
    q = linear(graph, attention.in_projection, x, slice(0, attention.splits[0]))
    q = split_heads(graph, q, attention.num_heads, attention.head_dim)
    return _attend(graph, attention, q, memory, mask, None)


def split_heads(graph: Graph, x: str, heads: int, head_dim: int) -> str:
    """Return (B, T, H K) as (B, H, T, K)."""
    return graph.transpose(graph.reshape(x, 0, 0, heads, head_dim), 0, 2, 1, 3)


def _attend(
    graph: Graph, attention: MultiHeadAttention, q: str, memory: KeyValue, mask: str | None, ids: PositionIds | None
) -> tuple[str, str]:
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
    return linear(graph, attention.out_projection, output), weights


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
