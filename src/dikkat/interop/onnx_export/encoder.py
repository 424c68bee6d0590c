"""The encoder as a graph of ONNX: ids and mask of a batch in, its memory out."""

from __future__ import annotations

from onnx import ModelProto, TensorProto
from torch import nn

from dikkat.interop.onnx_export.attention_nodes import KeyValue, key_mask, self_attention
from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import feed_forward, norm, residual_input, residual_sum
from dikkat.interop.onnx_export.position_nodes import PositionIds, add_positions
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import EncoderBlock, PositionedEncoderBlock
from dikkat.nn.embedding import TokenEmbedding
from dikkat.nn.named_positions import Positions

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
    block = checked(block)
    if isinstance(block, PositionedEncoderBlock):
        x = add_positions(graph, block.positions, x, ids.table_rows)
    read = residual_input(graph, block.self_residual, x)
    attended, present = self_attention(graph, block.self_attention, read, mask, ids, past)
    x = residual_sum(graph, block.self_residual, x, attended.output)
    return feed_forward(graph, block.feed_forward_residual, block.feed_forward, x), present


def checked(block: nn.Module) -> EncoderBlock:
    """Return a block of an encoder or a language model. Raises `TypeError` for any other."""
    if not isinstance(block, EncoderBlock):
        raise TypeError(f"no nodes are known for the block {type(block).__name__}")
    return block
