"""Positions as nodes of ONNX: tables that are added, rotations, and biases and masks by distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from dikkat.interop.onnx_export.graph import Graph
from dikkat.nn.alibi import AlibiBias
from dikkat.nn.learned_positions import LearnedPositions
from dikkat.nn.named_positions import Positions, ScoreBias
from dikkat.nn.positions import SinusoidalPositions, sinusoids
from dikkat.nn.relative import BucketBias, RelativeKeys, distance_buckets
from dikkat.nn.rotary import rotations
from dikkat.nn.sliding_window import Window


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
        leading = graph.op("Shape", query, start=0, end=2)
        shape = graph.op("Concat", leading, graph.op("Shape", rows), axis=0)
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
