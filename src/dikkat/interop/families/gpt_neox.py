"""GPT-NeoX (Pythia) and Phi 1 and 2: layer norm, and attention and feed-forward network side by side."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, block
from dikkat.interop.family_settings import ACTIVATIONS, decoder_sizes, tied
from dikkat.interop.rotary_settings import rotary_settings

BLOCK = {
    "self_attention.in_projection": "attention.query_key_value|by_head|rotary_packed",
    "self_attention.out_projection": "attention.dense",
    "self_residual.norm": "input_layernorm",
    "feed_forward.inner": "mlp.dense_h_to_4h",
    "feed_forward.outer": "mlp.dense_4h_to_h",
    "feed_forward_residual.norm": "post_attention_layernorm",
}
_PHI = {
    "self_attention.in_projection": "self_attn.q_proj|rotary&self_attn.k_proj|rotary&self_attn.v_proj",
    "self_attention.out_projection": "self_attn.dense",
    "self_residual.norm": "input_layernorm",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
    "feed_forward_residual.norm": "input_layernorm",
}
_AROUND = {
    "gpt_neox": ("embed_in", "embed_out", "final_layer_norm", "layers", BLOCK),
    "phi": ("embed_tokens", "lm_head", "final_layernorm", "layers", _PHI),
}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    embedding, output, norm, layers, own = _AROUND[str(theirs.values["model_type"])]
    return {
        "embedding.weight": f"{embedding}.weight",
        "output_weight": f"{embedding if model.tie_embeddings else output}.weight",
        "output_bias": f"{output}.bias",
        "decoder.final_norm": norm,
        **block("decoder.blocks", layers, own),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    kind = str(theirs.values["model_type"])
    theirs.require("qk_layernorm", False)
    sizes, width = decoder_sizes(theirs)
    return {
        **sizes,
        **rotary_settings(theirs, width, share=0.25 if kind == "gpt_neox" else 0.5),
        "activation": theirs.choice("hidden_act", "gelu_new" if kind == "phi" else "gelu", ACTIVATIONS),
        "norm_eps": theirs.number("layer_norm_eps", 1e-5),
        "parallel_residual": theirs.values.get("use_parallel_residual", True) is True,
        "attention_bias": theirs.values.get("attention_bias", True) is True,
        "tie_embeddings": tied(theirs, names, default=False, output=f"{_AROUND[kind][1]}.weight"),
        "output_bias": kind == "phi",
    }


_COMPUTED = (".attention.bias", ".masked_bias", ".inv_freq")
NEOX = Family(("gpt_neox",), "lm", keys, settings, ("gpt_neox.",), constants=_COMPUTED)
PHI = Family(("phi",), "lm", keys, settings, ("model.",))
