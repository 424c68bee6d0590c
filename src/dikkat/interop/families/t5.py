"""T5, mT5 and ByT5: root-mean-square norms, a bias of buckets of distances that all layers share, and no scale."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, Keys, block
from dikkat.interop.family_settings import tied

_ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"}


def _attention(ours: str, theirs: str) -> dict[str, str]:
    parts = "&".join(f"{theirs}.{part}" for part in "qkv")
    return {f"{ours}.in_projection": parts, f"{ours}.out_projection": f"{theirs}.o"}


def _stack(stack: str, *, is_gated: bool) -> dict[str, str]:
    last = "layer.2" if stack == "decoder" else "layer.1"
    dense = f"{last}.DenseReluDense"
    own = {
        **_attention("self_attention", "layer.0.SelfAttention"),
        "self_residual.norm": "layer.0.layer_norm",
        **_attention("cross_attention", "layer.1.EncDecAttention"),
        "cross_residual.norm": "layer.1.layer_norm",
        "feed_forward.inner": f"{dense}.wi_0|unbiased&{dense}.wi_1" if is_gated else f"{dense}.wi|unbiased",
        "feed_forward.outer": f"{dense}.wo|unbiased",
        "feed_forward_residual.norm": f"{last}.layer_norm",
    }
    shared = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    at = f"{stack}.blocks.*.self_attention.comparison.bias.embedding"
    return {**block(f"{stack}.blocks", f"{stack}.block", own), at: shared}


def keys(model: ModelConfig, theirs: ForeignSettings) -> Keys:
    is_gated = model.activation != "relu"
    # logits of the first T5 are divided by the root of the width, which the last norm does as well
    is_first = theirs.values["model_type"] == "t5" and theirs.values.get("tie_word_embeddings", True) is not False
    is_scaled = theirs.values.get("scale_decoder_outputs", is_first)
    scale = f"|times={model.model_dim**-0.5!r}" if is_scaled else ""
    return {
        "output_weight": "shared.weight" if model.tie_embeddings else "lm_head.weight",
        "source_embedding.weight": "shared.weight",
        "target_embedding.weight": "shared.weight",
        "output_bias": "0",
        "encoder.final_norm": "encoder.final_layer_norm",
        "decoder.final_norm": f"decoder.final_layer_norm{scale}",
        **_stack("encoder", is_gated=is_gated),
        **_stack("decoder", is_gated=is_gated),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("relative_attention_num_buckets", 32)
    theirs.require("relative_attention_max_distance", 128)
    layers, usual = theirs.number("num_layers"), "relu" if theirs.values["model_type"] == "t5" else "gated-gelu"
    return {
        "vocab_size": theirs.number("vocab_size"), "model_dim": theirs.number("d_model"),
        "num_heads": theirs.number("num_heads"), "head_dim": theirs.number("d_kv"),
        "feed_forward_dim": theirs.number("d_ff"),
        "encoder_layers": layers,
        "decoder_layers": theirs.number("num_decoder_layers", layers),
        "dropout": theirs.number("dropout_rate", 0.1),
        "activation": theirs.choice("feed_forward_proj", usual, _ACTIVATIONS),
        "norm": "rms", "norm_eps": theirs.number("layer_norm_epsilon", 1e-6),
        "positions": "relative_buckets",
        "inverse_temperature": 1.0,
        "attention_bias": False,
        "scale_embeddings": False,
        "output_bias": True,
        "tie_embeddings": tied(theirs, names, default=True),
    }  # fmt: skip


T5 = Family(("t5", "mt5"), "translator", keys, settings, layers="num_layers")
