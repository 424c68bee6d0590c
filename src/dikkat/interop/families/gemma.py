"""Gemma 1 to 3: root-mean-square norms that store their weight minus one, and scaled embeddings."""

import math
from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import ACTIVATIONS, GATED, decoder_sizes, tied, window_kinds
from dikkat.interop.rotary_settings import rotary_settings, window_frequencies
from dikkat_runtime.errors import DataError

_FIRST = "gemma"


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    second = "post_attention" if theirs.values["model_type"] == _FIRST else "pre_feedforward"
    own = {
        "self_attention.in_projection": "self_attn.q_proj|rotary&self_attn.k_proj|rotary&self_attn.v_proj",
        "self_attention.query_norm": "self_attn.q_norm|plus=1|rotary",
        "self_attention.key_norm": "self_attn.k_norm|plus=1|rotary",
        "self_attention.out_projection": "self_attn.o_proj",
        "self_residual.norm": "input_layernorm|plus=1",
        "self_residual.output_norm": "post_attention_layernorm|plus=1",
        "feed_forward.inner": "mlp.gate_proj|unbiased&mlp.up_proj",
        "feed_forward.outer": "mlp.down_proj|unbiased",
        "feed_forward_residual.norm": f"{second}_layernorm|plus=1",
        "feed_forward_residual.output_norm": "post_feedforward_layernorm|plus=1",
    }
    return {
        "embedding.weight": "embed_tokens.weight",
        "output_weight": "embed_tokens.weight" if model.tie_embeddings else "lm_head.weight",
        "decoder.final_norm": "norm|plus=1",
        **block("decoder.blocks", "layers", own),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    kind = theirs.values["model_type"]
    if theirs.values.get("use_bidirectional_attention"):
        theirs.require("use_bidirectional_attention", False)
    sizes, width = decoder_sizes(theirs)
    named, gelu = ("act", "gelu_tanh") if kind == _FIRST else ("activation", "gelu")  # the first means its tanh
    model = {
        **sizes,
        **rotary_settings(theirs, width, 1e6 if kind == "gemma3_text" else 1e4, kind="full_attention"),
        "activation": theirs.choice(f"hidden_{named}", "gelu_pytorch_tanh", {**ACTIVATIONS, "gelu": gelu}, GATED),
        "norm": "rms",
        "norm_eps": theirs.number("rms_norm_eps", 1e-6),
        "norm_placement": "pre" if kind == _FIRST else "both",
        "attention_bias": theirs.values.get("attention_bias", False) is True,
        "scale_embeddings": True,
        "tie_embeddings": tied(theirs, names, default=True),
    }
    if kind == _FIRST:
        return model
    every = 2 if kind == "gemma2" else theirs.number("sliding_window_pattern", 6)
    layers = range(1, theirs.number("num_hidden_layers") + 1)
    usual = tuple("window" if layer % every else "full" for layer in layers)
    model |= {"layer_kinds": usual, **window_kinds(theirs)}
    model["inverse_temperature"] = 1 / math.sqrt(theirs.number("query_pre_attn_scalar", 256))
    for ours, name, default in (("attention", "attn", 50.0), ("logit", "final", 30.0)):
        default = default if kind == "gemma2" else 0.0
        model[f"{ours}_softcap"] = theirs.values.get(f"{name}_logit_softcapping", default) or None
    if kind == "gemma3_text":
        model |= {"query_key_norm": "head", **window_frequencies(theirs, width, 1e4)}
    if "attention_window" not in model:
        raise DataError("{path}: sliding_window must be a number", theirs.path)
    return model


GEMMA = Family((_FIRST, "gemma2", "gemma3_text"), "lm", keys, settings, prefixes=("model.",), heads=("score.",))
