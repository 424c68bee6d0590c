"""The language model of *Build a Large Language Model (From Scratch)*, chapter 4: its parameters and settings."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, block
from dikkat_runtime.errors import DataError


def _norm(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}.scale", f"{ours}.bias": f"{theirs}.shift"}


_BLOCK = {
    "self_attention.in_projection": "att.W_query&att.W_key&att.W_value",
    "self_attention.out_projection": "att.out_proj",
    **_norm("self_residual.norm", "norm1"),
    "feed_forward.inner": "ff.layers.0",
    "feed_forward.outer": "ff.layers.2",
    **_norm("feed_forward_residual.norm", "norm2"),
}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        "embedding.weight": "tok_emb.weight",
        "positions.embedding": "pos_emb.weight",
        **block("decoder.blocks", "trf_blocks", _BLOCK),
        **_norm("decoder.final_norm", "final_norm"),
        "output_weight": "out_head.weight",
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
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


SCRATCH = Family((), "lm", keys, settings, constants=(".att.mask",), layers="n_layers")
"""Their causal mask is a buffer of every layer."""
