"""GPT-2, whose matrices are (inputs, outputs), GPT-Neo, which has no scale and local layers, and OPT."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import ACTIVATIONS, tied

_T = "|transposed"
_GPT2 = {
    "self_attention.in_projection": "attn.c_attn" + _T,
    "self_attention.out_projection": "attn.c_proj" + _T,
    "self_residual.norm": "ln_1",
    "feed_forward.inner": "mlp.c_fc" + _T,
    "feed_forward.outer": "mlp.c_proj" + _T,
    "feed_forward_residual.norm": "ln_2",
}
_NEO = {name: source.removesuffix(_T) for name, source in _GPT2.items()} | {
    "self_attention.in_projection": "&".join(f"attn.attention.{part}_proj" for part in "qkv"),
    "self_attention.out_projection": "attn.attention.out_proj",
}
_NAMES = {
    "vocab_size": ("vocab_size", "vocab_size"),
    "model_dim": ("n_embd", "hidden_size"),
    "num_heads": ("n_head", "num_heads"),
    "decoder_layers": ("n_layer", "num_layers"),
    "max_positions": ("n_positions", "max_position_embeddings"),
}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        "embedding.weight": "wte.weight",
        "output_weight": "wte.weight" if model.tie_embeddings else "lm_head.weight",
        "positions.embedding": "wpe.weight",
        "decoder.final_norm": "ln_f",
        **block("decoder.blocks", "h", _GPT2 if theirs.values["model_type"] == "gpt2" else _NEO),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    neo = theirs.values["model_type"] == "gpt_neo"
    theirs.require("scale_attn_weights", True)
    theirs.require("scale_attn_by_inverse_layer_idx", False)
    theirs.require("add_cross_attention", False)
    sizes = {ours: theirs.number(own[neo]) for ours, own in _NAMES.items()}
    model: dict[str, object] = {
        **sizes,
        "feed_forward_dim": theirs.number("intermediate_size" if neo else "n_inner", 4 * sizes["model_dim"]),
        "dropout": theirs.number("resid_dropout" if neo else "resid_pdrop", 0.0 if neo else 0.1),
        "attention_dropout": theirs.number("attention_dropout" if neo else "attn_pdrop", 0.0 if neo else 0.1),
        "activation": theirs.choice("activation_function", "gelu_new", {**ACTIVATIONS}),
        "norm_eps": theirs.number("layer_norm_epsilon", 1e-5),
        "positions": "learned",
        "scale_embeddings": False,
        "tie_embeddings": tied(theirs, names, default=True),
    }
    if neo:
        types, most = theirs.values.get("attention_types") or [[["global", "local"], 12]], sizes["decoder_layers"]
        named = {"global": "full", "local": "window"}
        kinds = tuple(named[kind] for kinds, count in types for kind in kinds * min(count, most))
        model |= {"layer_kinds": kinds, "inverse_temperature": 1.0}
        model |= {"attention_window": theirs.number("window_size", 256) - 1}
        model |= {"attention_bias": False, "attention_output_bias": True}
    return model


_CAUSAL = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias")
GPT2 = Family(("gpt2",), "lm", keys, settings, ("transformer.",), ("score.",), _CAUSAL, layers="n_layer")
GPT_NEO = Family(("gpt_neo",), "lm", keys, settings, ("transformer.",), ("score.",), _CAUSAL, layers="num_layers")
