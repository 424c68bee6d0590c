"""BLOOM: ALiBi, and a norm of the embeddings."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.gpt_neox import BLOCK
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import tied

_BLOCK = {
    **BLOCK,
    "self_attention.in_projection": "self_attention.query_key_value|by_head",
    "self_attention.out_projection": "self_attention.dense",
}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        "embedding.weight": "word_embeddings.weight",
        "embedding_norm": "word_embeddings_layernorm",
        "output_weight": "word_embeddings.weight" if model.tie_embeddings else "lm_head.weight",
        "decoder.final_norm": "ln_f",
        **block("decoder.blocks", "h", _BLOCK),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("apply_residual_connection_post_layernorm", False)
    dim = theirs.number("hidden_size", theirs.number("n_embed", 64))
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": dim,
        "num_heads": theirs.number("n_head", theirs.values.get("num_attention_heads")),
        "feed_forward_dim": 4 * dim,
        "decoder_layers": theirs.number("n_layer", theirs.values.get("num_hidden_layers")),
        "max_positions": theirs.number("seq_length", 2048),
        "dropout": 0.0,
        "activation": "gelu_tanh",
        "norm_eps": theirs.number("layer_norm_epsilon", 1e-5),
        "positions": "alibi",
        "scale_embeddings": False,
        "embedding_norm": True,
        "tie_embeddings": tied(theirs, names, default=True),
    }


BLOOM = Family(("bloom",), "lm", keys, settings, ("transformer.",), ("score.",), layers="n_layer")
