"""OPT: learned positions whose table begins with two rows that no position has."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bart import ENCODER
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import ACTIVATIONS, tied


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        "embedding.weight": "embed_tokens.weight",
        "output_weight": "embed_tokens.weight" if model.tie_embeddings else "lm_head.weight",
        "positions.embedding": "embed_positions.weight|from=2",
        "decoder.final_norm": "final_layer_norm",
        **block("decoder.blocks", "layers", ENCODER),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    dim = theirs.number("hidden_size")
    theirs.require("word_embed_proj_dim", dim)
    for name in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        theirs.require(name, True)
    theirs.require("_remove_final_layer_norm", False)
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": dim,
        "num_heads": theirs.number("num_attention_heads"),
        "feed_forward_dim": theirs.number("ffn_dim"),
        "decoder_layers": theirs.number("num_hidden_layers"),
        "max_positions": theirs.number("max_position_embeddings"),
        "dropout": theirs.number("dropout", 0.1),
        "attention_dropout": theirs.number("attention_dropout", 0.0),
        "activation": theirs.choice("activation_function", "relu", ACTIVATIONS),
        "positions": "learned",
        "scale_embeddings": False,
        "tie_embeddings": tied(theirs, names, default=True),
    }


OPT = Family(("opt",), "lm", keys, settings, prefixes=("model.decoder.", "decoder."), heads=("score.",))
