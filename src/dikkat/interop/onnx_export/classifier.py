"""A classifier as one graph of ONNX: ids and mask of a batch in, logits of the classes out."""

from __future__ import annotations

from onnx import ModelProto, TensorProto

from dikkat.interop.onnx_export.encoder import BATCH, encode
from dikkat.interop.onnx_export.graph import Graph
from dikkat.interop.onnx_export.layers import linear
from dikkat.interop.onnx_export.pooling_nodes import ngram_scores, pool
from dikkat.models.classifier import EncoderClassifier

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
    if network.ngram_table is not None:
        logits = graph.scale(graph.op("Add", logits, ngram_scores(graph, network.ngram_table, ids, mask)), 0.5)
    classes = network.output.out_features
    if classes == 1:
        # the logit of the first of two classes is 0
        logits, classes = graph.op("Pad", logits, graph.ints(0, 1, 0, 0)), 2
    graph.output("logits", graph.scale(logits, 1.0 / temperature), (BATCH, classes))
    if weights is not None:
        graph.output("pooling_weights", weights, (BATCH, LENGTH))
    return graph.model()
