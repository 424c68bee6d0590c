"""A translator as one functional model of Keras, whose layers have names by which its parts are taken out.

A nested encoder and decoder would be the plain form, but Keras 3.15 does not load a model of which two parts share an
embedding. So the model is flat, and a part is a `keras.Model` from named values of it to others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import torch
from keras import ops
from torch import nn

from dikkat.interop.keras_export.layers import (
    KerasTensor,
    PositionIds,
    Tables,
    add_positions,
    array,
    dropout,
    feed_forward,
    linear,
    residual,
    rotate,
    score_bias,
    window_mask,
)
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.blocks import DecoderBlock, EncoderBlock, PositionedDecoderBlock, PositionedEncoderBlock
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.layers import TokenEmbedding
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.pooling import AttentionPooling, FirstPooling, MaxPooling, MeanPooling, Pooling
from dikkat.nn.scorers import AdditiveScore, AttentionScorer, BilinearScore
from dikkat_runtime.special_tokens import PAD_ID

_LOWEST = -1e30


class KeyValue(NamedTuple):
    """Keys and values (B, G, S, K) by heads."""

    key: KerasTensor
    value: KerasTensor


def project_self(
    tables: Tables, attention: MultiHeadAttention, x: KerasTensor, ids: KerasTensor, name: str
) -> tuple[KerasTensor, KeyValue]:
    """Compute queries (B, H, T, K), keys and values of `x` (B, T, D), at the positions `ids` (B, T)."""
    queries = project_query(attention, x, name)
    key, value = project_memory(attention, x, name)
    if attention.rotary is not None:
        queries, key = rotate(tables, queries, ids), rotate(tables, key, ids)
    return queries, KeyValue(key, value)


def project_query(attention: MultiHeadAttention, x: KerasTensor, name: str) -> KerasTensor:
    """Compute the queries (B, H, T, K) of `x` (B, T, D)."""
    product = linear(attention.in_projection, x, f"{name}_query", slice(0, attention.splits[0]))
    return _split_heads(attention, product, attention.num_heads)


def project_memory(attention: MultiHeadAttention, memory: KerasTensor, name: str) -> KeyValue:
    """Compute the keys and values of a memory (B, S, D)."""
    first, second, _ = attention.splits
    bounds = (("key", slice(first, first + second)), ("value", slice(first + second, None)))
    products = (linear(attention.in_projection, memory, f"{name}_{part}", rows) for part, rows in bounds)
    return KeyValue(*(_split_heads(attention, product, attention.num_kv_heads) for product in products))


def attend(
    tables: Tables, attention: MultiHeadAttention, queries: KerasTensor, memory: KeyValue, mask: KerasTensor,
    name: str, ids: PositionIds | None = None,
) -> tuple[KerasTensor, KerasTensor]:  # fmt: skip
    """Compute attention of queries (B, H, T, K) to keys and values, where a `mask` of (B, H, T, S) is True.

    `ids` are the positions of self-attention. Returns the output (B, T, D) and the weights (B, H, T, S).
    """
    group = attention.num_heads // attention.num_kv_heads
    key, value = (part if group == 1 else ops.repeat(part, group, axis=1) for part in memory)
    scores = _scores(tables, attention, queries, key, ids, name)
    if attention.window is not None and ids is not None:
        mask = ops.logical_and(mask, window_mask(attention.window, ids))
    weights = _selected(attention, ops.where(mask, scores, _LOWEST))
    # a query that sees no key has zeros, not equal shares
    weights = ops.where(mask, weights, 0.0)
    heads = ops.matmul(dropout(weights, attention.dropout), value)
    # (B, H, T, K) -> (B, T, H K)
    output = keras.layers.Reshape((-1, attention.num_heads * attention.head_dim))(ops.transpose(heads, (0, 2, 1, 3)))
    return linear(attention.out_projection, output, f"{name}_output"), weights


def _split_heads(attention: MultiHeadAttention, x: KerasTensor, heads: int) -> KerasTensor:
    # (B, T, H K) -> (B, H, T, K)
    return ops.transpose(keras.layers.Reshape((-1, heads, attention.head_dim))(x), (0, 2, 1, 3))


def _scores(
    tables: Tables, attention: MultiHeadAttention, queries: KerasTensor, key: KerasTensor, ids: PositionIds | None,
    name: str,
) -> KerasTensor:  # fmt: skip
    scorer = attention.comparison
    beta = inverse_temperature(torch.empty(1, attention.head_dim), scorer.score, scorer.beta)
    bias = scorer.bias if isinstance(scorer, AttentionScorer) else None
    if isinstance(scorer, AttentionScorer) and scorer.bilinear is not None:
        queries = _bilinear(scorer.bilinear, queries, name)
    scaled = queries * beta
    if isinstance(scorer.score, AdditiveScore):
        scores = _additive(scorer.score, queries, key, name) * beta
    else:
        scores = ops.matmul(scaled, ops.transpose(key, (0, 1, 3, 2)))
    return scores if bias is None or ids is None else scores + score_bias(tables, bias, scaled, ids, name)


def _additive(score: AdditiveScore, queries: KerasTensor, key: KerasTensor, name: str) -> KerasTensor:
    # (B, H, T, 1, K) + (B, H, 1, S, K) -> (B, H, T, S, K), times (H, K)
    sums = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(key, 2))
    heads = queries.shape[1]
    layer = keras.layers.EinsumDense("bhtsk,hk->bhts", (heads, None, None), name=f"{name}_score")
    scores = layer(sums)
    layer.set_weights([array(score.vector).reshape(heads, score.width)])
    return scores


def _bilinear(score: BilinearScore, queries: KerasTensor, name: str) -> KerasTensor:
    heads, _, width = score.shape
    layer = keras.layers.EinsumDense("bhtk,hkl->bhtl", (heads, None, width), name=f"{name}_score")
    product = layer(queries)
    layer.set_weights([array(score.weight).reshape(score.shape)])
    return product


def _selected(attention: MultiHeadAttention, scores: KerasTensor) -> KerasTensor:
    """Return the weights of masked scores: shares of all keys, or one for the best."""
    scorer = attention.comparison
    if not isinstance(scorer, AttentionScorer) or scorer.selection == "soft":
        return ops.softmax(scores, axis=-1)
    # the other rules differ in training alone; of equal scores the first is the best
    is_best = ops.cast(ops.equal(scores, ops.max(scores, axis=-1, keepdims=True)), scores.dtype)
    return is_best * ops.cast(ops.equal(ops.cumsum(is_best, axis=-1), 1.0), scores.dtype)


def keras_translator(network: EncoderDecoder) -> Any:
    """Return the model from `source_ids` (B, S) and `target_ids` (B, T) to `logits` and `cross_attentions`.

    Logits are (B, T, V), of the token after each target position; cross-attention is (B, L, H, T, S). Padding of the
    source is 0. Values that `translate.py` cuts at are named `memory_keys_N`, `memory_values_N`, `cache_keys_N`,
    `cache_values_N` (B, G, P, K), `cache_positions` (B, P), `target_positions` (B, T), `new_keys_N` and
    `new_values_N`; of a whole model the cache is empty.
    """
    tables = Tables()
    source, target = (keras.Input((None,), dtype="int32", name=f"{side}_ids") for side in ("source", "target"))
    mask = ops.expand_dims(ops.not_equal(source, PAD_ID), (1, 2))
    memory = encode(tables, network, network.source_embedding, "source_embedding", source, mask)
    hidden, maps = _decode(tables, network, target, memory, mask)
    outputs = {"logits": project(tables, network, target, hidden), "cross_attentions": ops.stack(maps, axis=1)}
    return keras.Model({"source_ids": source, "target_ids": target}, outputs, name="translator")


def encode(
    tables: Tables, network: EncoderDecoder | EncoderClassifier, embedding: TokenEmbedding, embedding_name: str,
    ids: KerasTensor, mask: KerasTensor,
) -> KerasTensor:  # fmt: skip
    """Compute the hidden states (B, S, D) of `ids` (B, S), where a `mask` of (B, 1, 1, S) is True."""
    numbers = count(ids)
    positions = PositionIds(numbers, numbers)
    x = embed(tables, network, embedding, embedding_name, ids, numbers)
    for number, block in enumerate(network.encoder.blocks):
        attention = partial(_self_attention, tables, positions, mask, f"encoder_{number}_self_attention")
        x = encoder_block(tables, block, numbers, attention, x, f"encoder_{number}")
    return tables.norm(network.encoder.final_norm, x, "encoder_norm")


def encoder_block(
    tables: Tables, block: nn.Module, rows: KerasTensor,
    attention: Callable[[EncoderBlock, KerasTensor], KerasTensor], x: KerasTensor, name: str,
) -> KerasTensor:  # fmt: skip
    """Compute a block of an encoder or a language model at the positions `rows`, with its self-attention."""
    if not isinstance(block, EncoderBlock):
        raise TypeError(f"no Keras layers are known for the block {type(block).__name__}")
    if isinstance(block, PositionedEncoderBlock):
        x = add_positions(tables, block.positions, x, rows, f"{name}_positions")
    x = residual(tables, block.self_residual, x, partial(attention, block), f"{name}_self_attention")
    network_of = partial(feed_forward, block.feed_forward, name=f"{name}_feed_forward")
    return residual(tables, block.feed_forward_residual, x, network_of, f"{name}_feed_forward")


def _self_attention(
    tables: Tables, positions: PositionIds, mask: KerasTensor, name: str, block: EncoderBlock, x: KerasTensor
) -> KerasTensor:
    queries, own = project_self(tables, block.self_attention, x, positions.queries, name)
    output, _ = attend(tables, block.self_attention, queries, own, mask, name, positions)
    return output


def _decode(
    tables: Tables, network: EncoderDecoder, ids: KerasTensor, memory: KerasTensor, mask: KerasTensor
) -> tuple[KerasTensor, list[KerasTensor]]:
    """Return the hidden states (B, T, D), and the weights of cross-attention of each layer (B, H, T, S)."""
    numbers = named("target_positions", count(ids))
    past = named("cache_positions", numbers[:, :0])
    positions = PositionIds(numbers, ops.concatenate((past, numbers), axis=1))
    x = embed(tables, network, network.target_embedding, "target_embedding", ids, numbers)
    maps: list[KerasTensor] = []
    for number, block in enumerate(network.decoder.blocks):
        if not isinstance(block, DecoderBlock):
            raise TypeError(f"no Keras layers are known for the block {type(block).__name__}")
        name = f"decoder_{number}"
        if isinstance(block, PositionedDecoderBlock):
            x = add_positions(tables, block.positions, x, numbers, f"{name}_positions")
        attention = partial(cached_attention, tables, positions, positions.causal_mask, number, block)
        x = residual(tables, block.self_residual, x, attention, f"{name}_self_attention")
        projected = project_memory(block.cross_attention, memory, f"{name}_cross_attention")
        source = KeyValue(*(named(f"memory_{part}s_{number}", value) for part, value in projected._asdict().items()))
        reading = partial(_cross_attention, tables, block, source, mask, f"{name}_cross_attention", maps)
        x = residual(tables, block.cross_residual, x, reading, f"{name}_cross_attention")
        network_of = partial(feed_forward, block.feed_forward, name=f"{name}_feed_forward")
        x = residual(tables, block.feed_forward_residual, x, network_of, f"{name}_feed_forward")
    return tables.norm(network.decoder.final_norm, x, "decoder_norm"), maps


def cached_attention(
    tables: Tables, positions: PositionIds, mask: KerasTensor, number: int, block: DecoderBlock | EncoderBlock,
    x: KerasTensor,
) -> KerasTensor:  # fmt: skip
    """Compute self-attention to the keys and values of a cache, which is empty in a whole model, and to its own.

    `mask` (B, 1, T, S) is True where the block of this `number` may attend to a key.
    """
    attention, name = block.self_attention, f"decoder_{number}_self_attention"
    queries, projected = project_self(tables, attention, x, positions.queries, name)
    both = []
    for part, value in projected._asdict().items():
        new = named(f"new_{part}s_{number}", value)
        both.append(ops.concatenate((named(f"cache_{part}s_{number}", new[:, :, :0]), new), axis=2))
    output, _ = attend(tables, attention, queries, KeyValue(*both), mask, name, positions)
    return output


def _cross_attention(
    tables: Tables, block: DecoderBlock, source: KeyValue, mask: KerasTensor, name: str, maps: list[KerasTensor],
    x: KerasTensor,
) -> KerasTensor:  # fmt: skip
    """Compute attention to the source, whose weights go to `maps`."""
    attention = block.cross_attention
    output, weights = attend(tables, attention, project_query(attention, x, name), source, mask, name)
    maps.append(weights)
    return output


def embed(
    tables: Tables, network: EncoderDecoder | EncoderClassifier | LanguageModel, embedding: TokenEmbedding,
    name: str, ids: KerasTensor, numbers: KerasTensor,
) -> KerasTensor:  # fmt: skip
    """Compute the embeddings (B, T, D) of `ids` (B, T) at the positions `numbers` (B, T)."""
    rows = tables.table(embedding.weight, embedding.weight, name)(ids) * embedding.scale
    x = tables.norm(network.embedding_norm, add_positions(tables, network.positions, rows, numbers), "embedding_norm")
    return dropout(x, network.dropout.probability)


def project(
    tables: Tables, network: EncoderDecoder | LanguageModel, ids: KerasTensor, hidden: KerasTensor
) -> KerasTensor:
    """Compute the logits (B, T, V) of the `hidden` states (B, T, D) of `ids` (B, T)."""
    weight, bias = network.output_weight, network.output_bias
    logits = tables.table(weight, weight, "output")(hidden, reverse=True)
    if bias is None:
        return logits
    # no layer of Keras is a bias alone: it is the one row of a table
    return logits + tables.table(bias, bias[None], "output_bias")(ops.zeros_like(ids))


def count(ids: KerasTensor) -> KerasTensor:
    """Return the position (B, T) of each id."""
    return ops.cumsum(ops.ones_like(ids), axis=1) - 1


def named(name: str, value: KerasTensor) -> KerasTensor:
    """Return a value of a model by whose name others find it."""
    return keras.layers.Identity(name=name)(value)


# A classifier as one functional model of Keras: ids of a batch in, logits of the classes out.


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


# A language model as one functional model of Keras, whose layers have names by which a step is taken out.


def keras_language_model(network: LanguageModel, table_rows: int) -> Any:
    """Return the model from `input_ids` (B, T) to `logits` (B, T, V) of the token after each position.

    Where the objective is "prefix", `prefix_lengths` (B, 1) are the tokens of each row that are read both ways. Values
    that `generate.py` cuts at are named `token_positions` (B, T), `cache_positions` (B, P), `cache_keys_N`,
    `cache_values_N` (B, G, P, K), `new_keys_N` and `new_values_N`; of a whole model the cache is empty. A token at
    position -1 is padding. Tables of computed positions have `table_rows` rows.
    """
    tables = Tables(table_rows)
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    numbers = named("token_positions", count(ids))
    past = named("cache_positions", numbers[:, :0])
    # padding has no row of a table of its own, and nothing attends to it
    rows = ops.maximum(numbers, 0)
    positions = PositionIds(rows, ops.concatenate((past, numbers), axis=1))
    inputs, mask = {"input_ids": ids}, positions.causal_mask
    if network.objective == "prefix":
        inputs["prefix_lengths"] = keras.Input((1,), dtype="int32", name="prefix_lengths")
        mask = positions.prefix_mask(inputs["prefix_lengths"])
    x = embed(tables, network, network.embedding, "embedding", ids, rows)
    for number, block in enumerate(network.decoder.blocks):
        attention = partial(cached_attention, tables, positions, mask, number)
        x = encoder_block(tables, block, rows, attention, x, f"decoder_{number}")
    hidden = tables.norm(network.decoder.final_norm, x, "decoder_norm")
    return keras.Model(inputs, {"logits": project(tables, network, ids, hidden)}, name="language_model")
