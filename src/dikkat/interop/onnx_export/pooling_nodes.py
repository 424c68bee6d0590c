"""Masked pooling, and the scores of an n-gram table, as nodes of ONNX."""

from __future__ import annotations

from onnx import TensorProto

from dikkat.interop.onnx_export.attention_nodes import LOWEST
from dikkat.interop.onnx_export.graph import Graph
from dikkat.nn.ngram_table import NgramTable
from dikkat.nn.pooling import AttentionPooling, FirstPooling, MaxPooling, MeanPooling, Pooling
from dikkat_runtime.ngrams import FIRST_FACTOR, NGRAM_SCALE, PRIME, SECOND_FACTOR


def pool(graph: Graph, pooling: Pooling, x: str, mask: str) -> tuple[str, str | None]:
    """Compute the pooled vector (B, D) of `x` (B, S, D), where a `mask` (B, S) of whole numbers is not 0.

    Returns also the weights (B, S) where a query attends to the positions.
    """
    if isinstance(pooling, FirstPooling):
        return graph.op("Gather", x, graph.whole(0), axis=1), None
    seen = graph.op("Cast", mask, to=TensorProto.BOOL)
    if isinstance(pooling, MaxPooling):
        shown = graph.op("Where", graph.unsqueeze(seen, 2), x, graph.number(LOWEST))
        largest = graph.op("ReduceMax", shown, axes=[1], keepdims=0)
        # over no positions it is zero
        is_any = graph.op("Cast", graph.op("ReduceMax", mask, axes=[1], keepdims=1), to=TensorProto.BOOL)
        return graph.op("Where", is_any, largest, graph.number(0.0)), None
    if isinstance(pooling, MeanPooling):
        ones = graph.op("Cast", seen, to=TensorProto.FLOAT)
        count = graph.op("ReduceSum", ones, graph.ints(1), keepdims=1)
        return _weighted_sum(graph, graph.op("Div", ones, graph.op("Max", count, graph.number(1.0))), x), None
    if isinstance(pooling, AttentionPooling):
        width = len(pooling.query)
        # (B, S, D) x (D, 1) -> (B, S)
        scores = graph.op("MatMul", x, graph.reshape(graph.weight(pooling.query), width, 1))
        scaled = graph.scale(graph.op("Squeeze", scores, graph.ints(2)), width**-0.5)
        shares = graph.op("Softmax", graph.op("Where", seen, scaled, graph.number(LOWEST)), axis=-1)
        weights = graph.op("Where", seen, shares, graph.number(0.0))
        return _weighted_sum(graph, weights, x), weights
    raise TypeError(f"no nodes are known for the pooling {type(pooling).__name__}")


def ngram_scores(graph: Graph, table: NgramTable, ids: str, mask: str) -> str:
    """Compute the scores (B, C) of the tokens and pairs of neighbouring tokens that a `mask` (B, S) shows."""
    first, second = (graph.op("Mul", ids, graph.whole(factor)) for factor in (FIRST_FACTOR, SECOND_FACTOR))
    # the second factor is that of an id and one
    following = graph.op("Add", graph.part(second, 1, 1), graph.whole(SECOND_FACTOR))
    pairs = graph.op("Add", graph.part(first, 1, 0, -1), following)
    hashed = graph.op("Mod", graph.op("Concat", first, pairs, axis=1), graph.whole(PRIME))
    rows = graph.op("Mod", hashed, graph.whole(len(table.embedding)))
    both = graph.op("Mul", graph.part(mask, 1, 0, -1), graph.part(mask, 1, 1))
    shown = graph.op("Cast", graph.op("Concat", mask, both, axis=1), to=TensorProto.FLOAT)
    # (B, 2S - 1) -> (B, 2S - 1, C) -> (B, C)
    numbers = graph.op("Gather", graph.weight(table.embedding), rows)
    shown_numbers = graph.op("Mul", numbers, graph.unsqueeze(shown, 2))
    return graph.scale(graph.op("ReduceSum", shown_numbers, graph.ints(1), keepdims=0), NGRAM_SCALE)


def _weighted_sum(graph: Graph, weights: str, x: str) -> str:
    # (B, 1, S) x (B, S, D) -> (B, D)
    return graph.op("Squeeze", graph.op("MatMul", graph.unsqueeze(weights, 1), x), graph.ints(1))
