"""The encoder as a graph of ONNX: ids and mask of a batch in, its memory out."""

from typing import Any

from onnx import ModelProto, TensorProto
from torch import nn

from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import (
    LOWEST,
    KeyValue,
    PositionIds,
    add_positions,
    feed_forward,
    key_mask,
    linear,
    norm,
    residual_input,
    residual_sum,
    self_attention,
)
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import EncoderBlock, PositionedEncoderBlock
from dikkat.nn.layers import TokenEmbedding
from dikkat.nn.named_positions import Positions
from dikkat.nn.pooling import AttentionPooling, FirstPooling, MaxPooling, MeanPooling, Pooling

# Masked pooling, and the scores of an n-gram table, as nodes of ONNX.


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


def _weighted_sum(graph: Graph, weights: str, x: str) -> str:
    # (B, 1, S) x (B, S, D) -> (B, D)
    return graph.op("Squeeze", graph.op("MatMul", graph.unsqueeze(weights, 1), x), graph.ints(1))


BATCH, SOURCE = "batch_size", "encoder_sequence_length"


def encoder_graph(network: EncoderDecoder) -> ModelProto:
    """Return the graph from `input_ids` and `attention_mask` (B, S) to `last_hidden_state` (B, S, D)."""
    graph = Graph("encoder", network)
    ids, mask = (graph.input(name, TensorProto.INT64, (BATCH, SOURCE)) for name in ("input_ids", "attention_mask"))
    hidden = encode(graph, network, network.source_embedding, ids, mask)
    graph.output("last_hidden_state", hidden, (BATCH, SOURCE, network.source_embedding.weight.shape[1]))
    return graph.model()


def encode(
    graph: Graph, network: EncoderDecoder | EncoderClassifier, embedding: TokenEmbedding, ids: str, mask: str
) -> str:
    """Compute the hidden states (B, S, D) of `ids` (B, S), where a `mask` (B, S) of whole numbers is not 0."""
    seen = key_mask(graph, mask)
    numbers = graph.range(None, graph.size(ids, 1))
    positions = PositionIds(graph, numbers, numbers)
    x = embed(graph, embedding, network.positions, network.embedding_norm, ids, numbers)
    for block in network.encoder.blocks:
        x, _ = encoder_block(graph, block, x, seen, positions)
    return norm(graph, network.encoder.final_norm, x)


def embed(
    graph: Graph, embedding: TokenEmbedding, positions: Positions, last: nn.Module, ids: str, numbers: str
) -> str:
    """Compute the embeddings (B, T, D) of `ids` (B, T) at the positions `numbers`, (T,) or (B, T), normed by `last`."""
    rows = graph.scale(graph.op("Gather", graph.weight(embedding.weight), ids), embedding.scale)
    return norm(graph, last, add_positions(graph, positions, rows, numbers))


def encoder_block(
    graph: Graph, block: nn.Module, x: str, mask: str | None, ids: PositionIds, past: KeyValue | None = None
) -> tuple[str, KeyValue]:
    """Compute a block of an encoder or a language model, after the `past`; returns its keys and values, too."""
    own: EncoderBlock = checked(block)
    if isinstance(own, PositionedEncoderBlock):
        x = add_positions(graph, own.positions, x, ids.table_rows)
    read = residual_input(graph, own.self_residual, x)
    output, present = self_attention(graph, own.self_attention, read, mask, ids, past)
    x = residual_sum(graph, own.self_residual, x, output)
    return feed_forward(graph, own.feed_forward_residual, own.feed_forward, x), present


def checked(block: nn.Module, kinds: Any = EncoderBlock) -> Any:
    """Return a block of an encoder or a language model, or one of `kinds`. Raises `TypeError` for any other."""
    if not isinstance(block, kinds):
        raise TypeError(f"no nodes are known for the block {type(block).__name__}")
    return block


# A classifier as one graph of ONNX: ids and mask of a batch in, logits of the classes out.

LENGTH = "sequence_length"


def classifier_graph(network: EncoderClassifier, temperature: float, table_rows: int) -> ModelProto:
    """Return the graph from `input_ids` and `attention_mask` (B, S) to `logits` (B, C), divided by the temperature.

    Their softmax is the probability that the run gives, or their logistic function where a text has any number of
    labels. Where a query attends to the positions, its weights are the output `pooling_weights` (B, S). Tables of
    computed positions have `table_rows` rows.
    """
    graph = Graph("classifier", network, table_rows)
    ids, mask = (graph.input(name, TensorProto.INT64, (BATCH, LENGTH)) for name in ("input_ids", "attention_mask"))
    pooled, weights = pool(graph, network.pooling, encode(graph, network, network.embedding, ids, mask), mask)
    logits = linear(graph, network.output, pooled)
    classes = network.output.out_features
    if classes == 1:
        # the logit of the first of two classes is 0
        logits, classes = graph.op("Pad", logits, graph.ints(0, 1, 0, 0)), 2
    graph.output("logits", graph.scale(logits, 1.0 / temperature), (BATCH, classes))
    if weights is not None:
        graph.output("pooling_weights", weights, (BATCH, LENGTH))
    return graph.model()
