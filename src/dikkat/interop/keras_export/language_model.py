"""A language model as one functional model of Keras, whose layers have names by which a step is taken out."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import ops

from dikkat.interop.keras_export.layers import Tables, feed_forward, residual
from dikkat.interop.keras_export.network import cached_attention, count, embed, named, project
from dikkat.interop.keras_export.positions import PositionIds, add_positions
from dikkat.models.language_model import LanguageModel
from dikkat.nn.blocks import EncoderBlock, PositionedEncoderBlock


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
        if not isinstance(block, EncoderBlock):
            raise TypeError(f"no Keras layers are known for the block {type(block).__name__}")
        name = f"decoder_{number}"
        if isinstance(block, PositionedEncoderBlock):
            x = add_positions(tables, block.positions, x, rows, f"{name}_positions")
        attention = partial(cached_attention, tables, block, positions, mask, number)
        x = residual(tables, block.self_residual, x, attention, f"{name}_self_attention")
        network_of = partial(feed_forward, block.feed_forward, name=f"{name}_feed_forward")
        x = residual(tables, block.feed_forward_residual, x, network_of, f"{name}_feed_forward")
    hidden = tables.norm(network.decoder.final_norm, x, "decoder_norm")
    return keras.Model(inputs, {"logits": project(tables, network, ids, hidden)}, name="language_model")
