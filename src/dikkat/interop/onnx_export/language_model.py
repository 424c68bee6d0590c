"""A language model as one graph of ONNX, for the prompt and for each step after it."""

from collections.abc import Sequence

from onnx import ModelProto, TensorProto

from dikkat.interop.onnx_export.decoder import declare_key_value, key_value_inputs, logits
from dikkat.interop.onnx_export.encoder import BATCH, checked, embed, encoder_block
from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import PositionIds, key_mask, norm
from dikkat.models.language_model import LanguageModel

LENGTH, PAST, TOTAL = "sequence_length", "past_sequence_length", "total_sequence_length"


def language_model_graph(network: LanguageModel, never: Sequence[int], table_rows: int) -> ModelProto:
    """Return the graph from a cache and the next tokens `input_ids` (B, T) to `logits` (B, T, V) and the new cache.

    `attention_mask` (B, P + T) is 0 at padding, which stands before a text, and covers the cache, too. Names are those
    of Optimum and transformers.js. Entries that are `never` written have a logit below all others. Tables of computed
    positions have `table_rows` rows.
    """
    graph = Graph("language_model", network, table_rows)
    ids = graph.input("input_ids", TensorProto.INT64, (BATCH, LENGTH))
    real = graph.input("attention_mask", TensorProto.INT64, (BATCH, TOTAL))
    attentions = [checked(block).self_attention for block in network.decoder.blocks]
    pasts = [key_value_inputs(graph, f"past_key_values.{n}", one, PAST) for n, one in enumerate(attentions)]
    positions = _positions(graph, graph.size(pasts[0].key, 2), graph.size(ids, 1), real)
    mask = key_mask(graph, real)
    if network.objective == "causal":
        # a model of prefixes reads what it is given at once both ways
        mask = graph.op("And", mask, positions.causal_mask)
    x = embed(graph, network.embedding, network.positions, network.embedding_norm, ids, positions.table_rows)
    for number, (block, past) in enumerate(zip(network.decoder.blocks, pasts, strict=True)):
        x, present = encoder_block(graph, block, x, mask, positions, past)
        declare_key_value(graph, f"present.{number}", present, attentions[number], f"{PAST} + {LENGTH}")
    hidden = norm(graph, network.decoder.final_norm, x)
    scores = logits(graph, network.output_weight, network.output_bias, hidden, never)
    graph.output("logits", scores, (BATCH, LENGTH, len(network.output_weight)))
    return graph.model()


def _positions(graph: Graph, length: str, steps: str, real: str) -> PositionIds:
    """Return the positions of `steps` tokens after `length` others, some of which are padding where `real` is 0."""
    total = graph.op("Add", length, steps)
    # the position of a token is the number of real ones before it, in the cache or not
    counts = graph.op("Max", graph.op("Sub", graph.op("CumSum", real, graph.whole(1)), graph.ints(1)), graph.ints(0))
    padding = graph.op("Sub", total, graph.op("ReduceSum", real, graph.ints(1), keepdims=1))
    in_rows = graph.part(counts, 1, length)
    return PositionIds(graph, graph.range(length, steps), graph.range(None, total), in_rows, padding)
