"""BERT (Devlin et al. 2019) as stored by Hugging Face: its names of weights and settings, and ours.

Token types are our segments, kept as a table of their own, so that nothing is folded and the way back is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from dikkat.config import EncoderConfig, ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.models.key_table import Row, layer, stacked

PREFIX = "bert."
"""Prefix of every name in a checkpoint that has a head."""

HEADS = ("cls.", "classifier.", "qa_outputs.")
"""Heads of other tasks, which are not part of an encoder."""

CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""The numbers 0, 1, 2, … and zeros, which old checkpoints store."""

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}

_EMBEDDINGS = (
    Row("embedding.weight", ("embeddings.word_embeddings.weight",)),
    Row("positions.embedding", ("embeddings.position_embeddings.weight",)),
    Row("segment_embedding", ("embeddings.token_type_embeddings.weight",)),
    *layer("embedding_norm", "embeddings.LayerNorm"),
)
_SELF = "attention.self"
_BLOCK = (
    *layer("self_attention.in_projection", f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value"),
    *layer("self_attention.out_projection", "attention.output.dense"),
    *layer("self_residual.norm", "attention.output.LayerNorm"),
    *layer("feed_forward.inner", "intermediate.dense"),
    *layer("feed_forward.outer", "output.dense"),
    *layer("feed_forward_residual.norm", "output.LayerNorm"),
)
_POOLER = layer("pooler.dense", "pooler.dense")


def rows(model: ModelConfig, encoder: EncoderConfig) -> list[Row]:
    """Return the table for an encoder of these settings."""
    blocks = stacked(_BLOCK, "encoder.blocks", "encoder.layer", model.encoder_layers)
    return [*_EMBEDDINGS, *blocks, *(_POOLER if encoder.pooler else ())]


def model_settings(theirs: ForeignSettings) -> dict[str, object]:
    """Return the settings of our model that computes the same. Raises `DataError` where there is none."""
    theirs.require("position_embedding_type", "absolute")
    theirs.require("is_decoder", False)
    theirs.require("add_cross_attention", False)
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": theirs.number("hidden_size"),
        "num_heads": theirs.number("num_attention_heads"),
        "feed_forward_dim": theirs.number("intermediate_size"),
        "encoder_layers": theirs.number("num_hidden_layers"),
        "max_positions": theirs.number("max_position_embeddings"),
        "dropout": theirs.number("hidden_dropout_prob", 0.1),
        "attention_dropout": theirs.number("attention_probs_dropout_prob", 0.1),
        "activation": theirs.choice("hidden_act", "gelu", _ACTIVATIONS),
        "norm_eps": theirs.number("layer_norm_eps", 1e-12),
        "norm_placement": "post",
        "positions": "learned",
        "scale_embeddings": False,
        "embedding_norm": True,
    }


def encoder_settings(theirs: ForeignSettings, names: Sequence[str]) -> dict[str, object]:
    """Return the settings of what is around the blocks; the `names` of the weights show whether there is a pooler."""
    return {"segments": theirs.number("type_vocab_size", 2), "pooler": "pooler.dense.weight" in names}
