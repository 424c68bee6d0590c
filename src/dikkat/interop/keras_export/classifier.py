"""A classifier as one functional model of Keras: ids of a batch in, logits of the classes out."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from dikkat.interop.keras_export.layers import KerasTensor, Tables, dropout, linear
from dikkat.interop.keras_export.network import encode
from dikkat.models.classifier import EncoderClassifier
from dikkat.nn.ngram_table import NgramTable
from dikkat.nn.pooling import AttentionPooling, FirstPooling, MaxPooling, MeanPooling, Pooling
from dikkat_runtime.ngrams import FIRST_FACTOR, NGRAM_SCALE, PRIME, SECOND_FACTOR, token_rows
from dikkat_runtime.special_tokens import PAD_ID

_LOWEST = -1e30


def keras_classifier(network: EncoderClassifier, temperature: float, table_rows: int) -> Any:
    """Return the model from `input_ids` (B, S), padding 0, to `logits` (B, C), divided by the temperature.

    Where a query attends to the positions, its weights are the output `pooling_weights` (B, S). Tables of computed
    positions have `table_rows` rows.
    """
    tables = Tables(table_rows)
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    seen = ops.not_equal(ids, PAD_ID)
    hidden = encode(tables, network, network.embedding, "embedding", ids, ops.expand_dims(seen, (1, 2)))
    pooled, weights = _pool(tables, network.pooling, hidden, seen)
    logits = linear(network.output, dropout(pooled, network.dropout.probability), "output")
    if network.ngram_table is not None:
        size = len(network.embedding.weight)
        logits = (logits + _ngram_scores(tables, network.ngram_table, size, ids, seen)) * 0.5
    if network.output.out_features == 1:
        # the logit of the first of two classes is 0
        logits = ops.concatenate((ops.zeros_like(logits), logits), axis=-1)
    outputs = {"logits": logits * (1.0 / temperature)}
    if weights is not None:
        outputs["pooling_weights"] = weights
    return keras.Model({"input_ids": ids}, outputs, name="classifier")


def _pool(
    tables: Tables, pooling: Pooling, x: KerasTensor, seen: KerasTensor
) -> tuple[KerasTensor, KerasTensor | None]:
    """Compute the pooled vector (B, D) of `x` (B, S, D) at positions `seen`, and the weights where a query attends."""
    if isinstance(pooling, FirstPooling):
        return x[:, 0], None
    if isinstance(pooling, MaxPooling):
        largest = ops.max(ops.where(ops.expand_dims(seen, 2), x, _LOWEST), axis=1)
        # over no positions it is zero
        return ops.where(ops.any(seen, axis=1, keepdims=True), largest, 0.0), None
    if isinstance(pooling, AttentionPooling):
        width = len(pooling.query)
        query = tables.table(pooling.query, pooling.query[None], "pooling_query")
        # (B, S, D) x (D, 1) -> (B, S)
        scores = query(x, reverse=True)[:, :, 0] * width**-0.5
        weights = ops.where(seen, ops.softmax(ops.where(seen, scores, _LOWEST), axis=-1), 0.0)
        return _weighted_sum(weights, x), weights
    if isinstance(pooling, MeanPooling):
        ones = ops.cast(seen, x.dtype)
        return _weighted_sum(ones / ops.maximum(ops.sum(ones, axis=1, keepdims=True), 1.0), x), None
    raise TypeError(f"no Keras layers are known for the pooling {type(pooling).__name__}")


def _weighted_sum(weights: KerasTensor, x: KerasTensor) -> KerasTensor:
    return ops.sum(ops.expand_dims(weights, 2) * x, axis=1)


def _ngram_scores(tables: Tables, table: NgramTable, size: int, ids: KerasTensor, seen: KerasTensor) -> KerasTensor:
    """Compute the scores (B, C) of the tokens and pairs of neighbouring tokens that are `seen`.

    The hash of an id is looked up, since whole numbers of JAX have 32 bits: the sum of a pair is then below 2**31.
    """
    rows, every = len(table.embedding), np.arange(size, dtype=np.int64)
    of_token = token_rows(every, rows).astype("int32")
    first, second = every * FIRST_FACTOR % PRIME, (every + 1) * SECOND_FACTOR % PRIME - PRIME
    sums = ops.take(first.astype("int32"), ids[:, :-1]) + ops.take(second.astype("int32"), ids[:, 1:])
    pairs = ops.mod(ops.where(ops.less(sums, 0), sums + PRIME, sums), rows)
    both = ops.logical_and(seen[:, :-1], seen[:, 1:])
    shown = ops.cast(ops.concatenate((seen, both), axis=1), "float32")
    numbers = tables.table(table.embedding, table.embedding, "ngrams")(
        ops.concatenate((ops.take(of_token, ids), pairs), axis=1)
    )
    # (B, 2S - 1, C) -> (B, C)
    return ops.sum(numbers * ops.expand_dims(shown, 2), axis=1) * NGRAM_SCALE
