"""Positions as nodes of ONNX: tables that are added, rotations, and biases and masks by distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from dikkat.interop.exported_texts import TABLE_ROWS
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
    """Hold the positions of the queries (T,) and of the keys (S,) of one sequence, as values of a graph."""

    graph: Graph
    queries: str
    keys: str

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
    """Add to `x` (B, T, D) what the positions `ids` (T,) add to an embedding."""
    if isinstance(positions, SinusoidalPositions):
        values = sinusoids(TABLE_ROWS, positions.model_dim, positions.layout)
        table = graph.table(f"positions.{positions.layout}", values)
    elif isinstance(positions, LearnedPositions):
        table = graph.weight(positions.embedding)
    else:
        return x
    return graph.op("Add", x, graph.op("Gather", table, ids))


def rotate(graph: Graph, head_dim: int, x: str, ids: str) -> str:
    """Turn pairs (2j, 2j+1) of heads (B, H, T, K) by the angles of the positions `ids` (T,)."""
    # (2, rows, K/2, 1), of which (T, K/2, 1) is taken
    tables = zip(("cosines", "sines"), rotations(TABLE_ROWS, head_dim)[..., None], strict=True)
    cosine, sine = (graph.op("Gather", graph.table(f"rotary.{name}", table), ids) for name, table in tables)
    # (B, H, T, K) -> 2 x (B, H, T, K/2, 1)
    first, second = graph.split(graph.reshape(x, 0, 0, 0, head_dim // 2, 2), (1, 1))
    turned_first = graph.op("Sub", graph.op("Mul", first, cosine), graph.op("Mul", second, sine))
    turned_second = graph.op("Add", graph.op("Mul", first, sine), graph.op("Mul", second, cosine))
    return graph.reshape(graph.op("Concat", turned_first, turned_second, axis=-1), 0, 0, 0, head_dim)


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
    """Return the mask (T, S) of the keys that a window lets each query see."""
    near = graph.op("LessOrEqual", graph.op("Abs", ids.distances), graph.ints(window.size))
    if window.global_tokens:
        first = graph.ints(window.global_tokens)
        global_key = graph.unsqueeze(graph.op("Less", ids.keys, first), 0)
        global_query = graph.unsqueeze(graph.op("Less", ids.queries, first), 1)
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
