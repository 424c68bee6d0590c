"""The language model of *Build a Large Language Model (From Scratch)*, chapter 4: its parameters and settings."""

from __future__ import annotations

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.models.key_table import Row, layer, stacked
from dikkat_runtime.errors import DataError

CONSTANTS = (".att.mask",)
"""The causal mask, which every layer stores as a buffer."""


def _norm(ours: str, theirs: str) -> tuple[Row, Row]:
    return Row(f"{ours}.weight", (f"{theirs}.scale",)), Row(f"{ours}.bias", (f"{theirs}.shift",))


_PARTS = tuple(f"att.W_{part}" for part in ("query", "key", "value"))
_BLOCK = (
    *layer("self_attention.in_projection", *_PARTS),
    *layer("self_attention.out_projection", "att.out_proj"),
    *_norm("self_residual.norm", "norm1"),
    *layer("feed_forward.inner", "ff.layers.0"),
    *layer("feed_forward.outer", "ff.layers.2"),
    *_norm("feed_forward_residual.norm", "norm2"),
)


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a language model of these settings."""
    block = [row for row in _BLOCK if model.attention_bias or row.ours != "self_attention.in_projection.bias"]
    return [
        Row("embedding.weight", ("tok_emb.weight",)),
        Row("positions.embedding", ("pos_emb.weight",)),
        *stacked(block, "decoder.blocks", "trf_blocks", model.decoder_layers),
        *_norm("decoder.final_norm", "final_norm"),
        Row("output_weight", ("out_head.weight",)),
    ]


def model_settings(theirs: ForeignSettings) -> dict[str, object]:
    """Return the settings of our model that computes the same, from a dictionary like GPT_CONFIG_124M."""
    bias = theirs.values.get("qkv_bias", False)
    if not isinstance(bias, bool):
        raise DataError("{path}: qkv_bias must be true or false, not {bias}", theirs.path, repr(bias))
    model_dim = theirs.number("emb_dim")
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": model_dim,
        "num_heads": theirs.number("n_heads"),
        "feed_forward_dim": 4 * model_dim,
        "decoder_layers": theirs.number("n_layers"),
        "max_positions": theirs.number("context_length"),
        "dropout": theirs.number("drop_rate", 0.1),
        "attention_dropout": theirs.number("drop_rate", 0.1),
        "activation": "gelu_tanh",
        "norm_placement": "pre",
        "positions": "learned",
        "scale_embeddings": False,
        "attention_bias": bias,
        "attention_output_bias": True,
        "tie_embeddings": False,
    }
