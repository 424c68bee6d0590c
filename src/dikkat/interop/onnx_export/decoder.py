"""The decoder as one graph of ONNX, for the first step and all others.

The keys and values of the source are an input, empty at the first step: the graph projects the part of the memory that
they lack, which is all of it at first and nothing later. So there is no branch, and no second file.
"""

from collections.abc import Sequence

import torch
from onnx import ModelProto, TensorProto, helper
from torch import Tensor

from dikkat.interop.onnx_export.encoder import BATCH, SOURCE, checked, embed
from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import (
    KeyValue,
    PositionIds,
    add_positions,
    cross_attention,
    feed_forward,
    key_mask,
    linear,
    norm,
    project_memory,
    residual_input,
    residual_sum,
    self_attention,
)
from dikkat.interop.piece_vocabulary import NEVER
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import SSRU, DecoderBlock, PositionedDecoderBlock, RecurrentDecoderBlock
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID


def recurrence(graph: Graph, unit: SSRU, x: str, past: str) -> tuple[str, str]:
    """Compute the unit of `x` (B, T, D) after the states `past` (B, 1, P, D).

    Returns its output (B, T, D) and all states (B, 1, P + T, D), as the cache of our engines holds them.
    """
    width = unit.content.out_features
    forget = graph.op("Sigmoid", linear(graph, unit.forget, x))
    fresh = graph.op("Mul", graph.op("Sub", graph.number(1.0), forget), linear(graph, unit.content, x))
    # the state before the first token is zero: (B, 1 + P, D) -> (B, D)
    shape = graph.op("Concat", graph.size(x, 0), graph.ints(1, width), axis=0)
    zeros = graph.op("Expand", graph.number(0.0), shape)
    before = graph.op("Concat", zeros, graph.op("Squeeze", past, graph.ints(1)), axis=1)
    state = graph.op("Squeeze", graph.part(before, 1, -1), graph.ints(1))
    scan = {"num_scan_inputs": 2, "scan_input_axes": [1, 1], "scan_output_axes": [1]}
    _, states = graph.node("Scan", state, forget, fresh, outputs=2, body=_step(width), **scan)
    return graph.op("Relu", states), graph.op("Concat", past, graph.unsqueeze(states, 1), axis=2)


def _step(width: int) -> object:
    """Return the graph of one step: the new state, which is carried on and written out."""
    row = ("batch_size", width)
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["forget", "state"], ["kept"]),
        helper.make_node("Add", ["kept", "fresh"], ["next_state"]),
        helper.make_node("Identity", ["next_state"], ["written_state"]),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, row) for name in names]
        for names in (("state", "forget", "fresh"), ("next_state", "written_state"))
    )
    return helper.make_graph(nodes, "ssru_step", inputs, outputs)


TARGET, PAST, PAST_SOURCE = "decoder_sequence_length", "past_decoder_sequence_length", "past_encoder_sequence_length"
ALL_TARGET = f"{PAST} + {TARGET}"


Block = DecoderBlock | RecurrentDecoderBlock


def decoder_graph(network: EncoderDecoder) -> ModelProto:
    """Return the graph from a memory, a cache and the next tokens to logits, the new cache and attention to the source.

    Names are those of Optimum and transformers.js. `<pad>` and `<bos>`, which are never written, have a logit below all
    others, and so has after an end mark all but an end mark: transformers.js writes on until all rows of a batch ended.
    """
    graph = Graph("decoder", network)
    width = network.target_embedding.weight.shape[1]
    mask = key_mask(graph, graph.input("encoder_attention_mask", TensorProto.INT64, (BATCH, SOURCE)))
    ids = graph.input("input_ids", TensorProto.INT64, (BATCH, TARGET))
    memory = graph.input("encoder_hidden_states", TensorProto.FLOAT, (BATCH, SOURCE, width))
    blocks: list[Block] = [checked(block, Block) for block in network.decoder.blocks]
    pasts = [_past(graph, block, number) for number, block in enumerate(blocks)]
    length, steps = graph.size(pasts[0][0][0], 2), graph.size(ids, 1)
    numbers = graph.range(length, steps)
    positions = PositionIds(graph, numbers, graph.range(None, graph.op("Add", length, steps)))
    missing = graph.part(memory, 1, graph.size(pasts[0][1].key, 2))
    x = embed(graph, network.target_embedding, network.positions, network.embedding_norm, ids, numbers)
    maps = []
    for number, (block, (written, source)) in enumerate(zip(blocks, pasts, strict=True)):
        x = _first_sub_layer(graph, block, number, x, positions, written)
        projected = project_memory(graph, block.cross_attention, missing)
        present = KeyValue(*(graph.op("Concat", *pair, axis=2) for pair in zip(source, projected, strict=True)))
        declare_key_value(graph, f"present.{number}.encoder", present, block.cross_attention, SOURCE)
        read = residual_input(graph, block.cross_residual, x)
        output, weights = cross_attention(graph, block.cross_attention, read, present, mask)
        maps.append((weights, block.cross_attention.num_heads))
        x = residual_sum(graph, block.cross_residual, x, output)
        x = feed_forward(graph, block.feed_forward_residual, block.feed_forward, x)
    hidden = norm(graph, network.decoder.final_norm, x)
    rows = len(network.output_weight)
    scores = logits(graph, network.output_weight, network.output_bias, hidden, (PAD_ID, BOS_ID))
    graph.output("logits", _ended(graph, ids, scores, rows), (BATCH, TARGET, rows))
    for number, (weights, heads) in enumerate(maps):
        graph.output(f"cross_attentions.{number}", weights, (BATCH, heads, TARGET, SOURCE))
    return graph.model()


def logits(graph: Graph, weight: Tensor, bias: Tensor | None, hidden: str, never: Sequence[int]) -> str:
    """Compute the logits (B, T, V) of hidden states (B, T, D); entries `never` written have one below all others."""
    size, width = weight.shape
    values = torch.zeros(size) if bias is None else bias.detach().clone()
    values[list(never)] = NEVER
    # Gemm multiplies by the rows of the embedding as they are stored: one copy serves both
    rows = graph.op(
        "Gemm", graph.reshape(hidden, -1, width), graph.weight(weight), graph.table("bias", values), transB=1
    )
    shape = graph.op("Concat", graph.op("Shape", hidden, start=0, end=2), graph.ints(size), axis=0)
    return graph.op("Reshape", rows, shape)


def _ended(graph: Graph, ids: str, scores: str, rows: int) -> str:
    """Return the logits (B, T, V), of which only that of the end mark counts where `ids` (B, T) are end marks."""
    others = torch.full((rows,), NEVER)
    others[EOS_ID] = 0.0
    is_end = graph.unsqueeze(graph.op("Equal", ids, graph.whole(EOS_ID)), 2)
    # (B, T, 1) and (V) -> (B, T, V)
    return graph.op("Add", scores, graph.op("Where", is_end, graph.table("ended", others), graph.number(0.0)))


def key_value_inputs(graph: Graph, name: str, attention: MultiHeadAttention, length: str) -> KeyValue:
    """Declare the keys and values of an attention as inputs, of `length` positions."""
    shape = (BATCH, attention.num_kv_heads, length, attention.head_dim)
    return KeyValue(*(graph.input(f"{name}.{part}", TensorProto.FLOAT, shape) for part in KeyValue._fields))


def declare_key_value(graph: Graph, name: str, values: KeyValue, attention: MultiHeadAttention, length: str) -> None:
    """Declare the keys and values of an attention as outputs, of `length` positions."""
    shape = (BATCH, attention.num_kv_heads, length, attention.head_dim)
    for part, value in zip(KeyValue._fields, values, strict=True):
        graph.output(f"{name}.{part}", value, shape)


def _past(graph: Graph, block: Block, number: int) -> tuple[tuple[str, ...], KeyValue]:
    """Declare the cache of a block: what it knows of the tokens so far, and of the source."""
    name = f"past_key_values.{number}"
    if isinstance(block, RecurrentDecoderBlock):
        width = block.recurrence.content.out_features
        written: tuple[str, ...] = (graph.input(f"{name}.decoder.key", TensorProto.FLOAT, (BATCH, 1, PAST, width)),)
    else:
        written = key_value_inputs(graph, f"{name}.decoder", block.self_attention, PAST)
    return written, key_value_inputs(graph, f"{name}.encoder", block.cross_attention, PAST_SOURCE)


def _first_sub_layer(
    graph: Graph, block: Block, number: int, x: str, ids: PositionIds, written: tuple[str, ...]
) -> str:
    """Compute what knows the tokens so far, and its residual sum; declares the new cache."""
    if isinstance(block, PositionedDecoderBlock):
        x = add_positions(graph, block.positions, x, ids.queries)
    read = residual_input(graph, block.self_residual, x)
    name = f"present.{number}.decoder"
    if isinstance(block, RecurrentDecoderBlock):
        output, states = recurrence(graph, block.recurrence, read, written[0])
        graph.output(f"{name}.key", states, (BATCH, 1, ALL_TARGET, block.recurrence.content.out_features))
    else:
        attention = block.self_attention
        output, present = self_attention(graph, attention, read, ids.causal_mask, ids, KeyValue(*written))
        declare_key_value(graph, name, present, attention, ALL_TARGET)
    return residual_sum(graph, block.self_residual, x, output)
