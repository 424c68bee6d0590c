"""Llama and those that are built like it: Mistral, Qwen 2 and 3, SmolLM 1 to 3, OLMo 2, Phi 3."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import ACTIVATIONS, GATED, decoder_sizes, tied, window_kinds
from dikkat.interop.rotary_settings import rotary_settings

_SELF = "self_attn"


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    phi3, after = theirs.values["model_type"] == "phi3", model.norm_placement == "output"
    mark = "" if theirs.values.get("mlp_bias") else "|unbiased"
    first, second = ("post_attention", "post_feedforward") if after else ("input", "post_attention")
    parts = "&".join(
        f"{_SELF}.{part}_proj{change}" for part, change in zip("qkv", ("|rotary", "|rotary", ""), strict=True)
    )
    own = {
        "self_attention.in_projection": f"{_SELF}.qkv_proj|rotary_packed" if phi3 else parts,
        "self_attention.query_norm": f"{_SELF}.q_norm|rotary",
        "self_attention.key_norm": f"{_SELF}.k_norm|rotary",
        "self_attention.out_projection": f"{_SELF}.o_proj",
        "self_residual.norm": f"{first}_layernorm",
        "feed_forward.inner": f"mlp.gate_up_proj{mark}" if phi3 else f"mlp.gate_proj{mark}&mlp.up_proj",
        "feed_forward.outer": f"mlp.down_proj{mark}",
        "feed_forward_residual.norm": f"{second}_layernorm",
    }
    return {
        "embedding.weight": "embed_tokens.weight",
        "output_weight": "embed_tokens.weight" if model.tie_embeddings else "lm_head.weight",
        "decoder.final_norm": "norm",
        **block("decoder.blocks", "layers", own),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    kind = theirs.values["model_type"]
    sizes, width = decoder_sizes(theirs)
    bias = theirs.values.get("attention_bias", False) is True
    model = {
        **sizes,
        **rotary_settings(theirs, width, {"qwen2": 1e4, "smollm3": 2e6}.get(kind, 1e4)),
        "activation": theirs.choice("hidden_act", "silu", ACTIVATIONS, GATED),
        "norm": "rms",
        "norm_eps": theirs.number("rms_norm_eps", 1e-5 if kind in ("olmo2", "phi3") else 1e-6),
        "norm_placement": "output" if kind == "olmo2" else "pre",
        "query_key_norm": {"qwen3": "head", "olmo2": "all"}.get(kind),
        "attention_bias": bias or kind == "qwen2",
        "attention_output_bias": bias,
        "tie_embeddings": tied(theirs, names, default=kind == "smollm3"),
    }
    if kind in ("mistral", "phi3"):
        model |= window_kinds(theirs, None if kind == "phi3" else 4096)
    if kind in ("qwen2", "qwen3") and theirs.values.get("use_sliding_window"):
        first, layers = theirs.number("max_window_layers", 28), range(theirs.number("num_hidden_layers"))
        model["layer_kinds"] = tuple("full" if layer < first else "window" for layer in layers)
        model |= window_kinds(theirs)
    if kind == "smollm3":
        theirs.require("use_sliding_window", False)
        every = theirs.number("no_rope_layer_interval", 4)
        layers = range(1, theirs.number("num_hidden_layers") + 1)
        turns = theirs.values.get("no_rope_layers") or [int(layer % every != 0) for layer in layers]
        model["layer_kinds"] = tuple("full" if turn else "unrotated" for turn in turns)
    return model


LLAMA = Family(
    ("llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "phi3"), "lm", keys, settings, prefixes=("model.",),
    heads=("score.",), constants=(".rotary_emb.inv_freq",),
)  # fmt: skip
