"""ModernBERT and NomicBERT: encoders with rotary positions and gated feed-forward networks."""

from __future__ import annotations

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import CONSTANTS, EMBEDDINGS
from dikkat.interop.family import Family, Head, block
from dikkat.interop.family_settings import ACTIVATIONS, GATED, encoder_sizes
from dikkat.interop.rotary_settings import rotary_settings, window_frequencies

_MODERN = {
    "self_attention.in_projection": "attn.Wqkv|rotary_packed",
    "self_attention.out_projection": "attn.Wo",
    "self_residual.norm": "attn_norm",
    "feed_forward.inner": "mlp.Wi",
    "feed_forward.outer": "mlp.Wo",
    "feed_forward_residual.norm": "mlp_norm",
}
_NOMIC = {
    "self_attention.in_projection": "self_attn.q_proj|rotary self_attn.k_proj|rotary self_attn.v_proj",
    "self_attention.out_projection": "self_attn.o_proj",
    "self_residual.norm": "post_attention_layernorm",
    "feed_forward.inner": "mlp.gate_proj mlp.up_proj",
    "feed_forward.outer": "mlp.down_proj",
    "feed_forward_residual.norm": "post_mlp_layernorm",
}
_WORDS = "embeddings.tok_embeddings.weight"
_AROUND = {
    "embedding.weight": _WORDS, "output_weight": _WORDS, "segment_embedding": "0",
    "embedding_norm": "embeddings.norm", "encoder.final_norm": "final_norm", "decoder.final_norm": "final_norm",
}  # fmt: skip


def _modern_settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    every, layers = theirs.number("global_attn_every_n_layers", 3), theirs.number("num_hidden_layers")
    usual = ["sliding_attention" if layer % every else "full_attention" for layer in range(layers)]
    kinds = theirs.values.get("layer_types") or usual
    width = theirs.number("hidden_size") // theirs.number("num_attention_heads")
    base = theirs.number("global_rope_theta", 160000.0)
    return {
        **encoder_sizes(theirs, 1e-5, eps="norm_eps"),
        **rotary_settings(theirs, width, base, kind="full_attention"),
        **window_frequencies(theirs, width, theirs.number("local_rope_theta", 10000.0)),
        "activation": theirs.choice("hidden_activation", "gelu", ACTIVATIONS, GATED),
        "norm_placement": "pre",
        "first_norm": False,
        "attention_bias": theirs.values.get("attention_bias", False) is True,
        "attention_window": theirs.number("local_attention", 128) // 2,
        "layer_kinds": tuple("full" if kind == "full_attention" else "window" for kind in kinds),
    }


def _nomic_settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    width = theirs.number("head_dim", theirs.number("hidden_size") // theirs.number("num_attention_heads"))
    return {
        **encoder_sizes(theirs, 1e-12),
        **rotary_settings(theirs, width, 1000.0),
        "activation": theirs.choice("hidden_act", "silu", ACTIVATIONS, GATED),
        "attention_bias": False,
    }


def _modern_keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {**_AROUND, **block("encoder.blocks", "layers", _MODERN)}


def _nomic_keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {**EMBEDDINGS, **block("encoder.blocks", "layers", _NOMIC)}


MODERN = Family(
    ("modernbert",), "encoder", _modern_keys, _modern_settings, ("model.",), ("head.", "decoder.", "classifier."),
    classifier=Head(
        {"transform.dense": "head.dense", "transform.norm": "head.norm", "output": "classifier"},
        "classifier_activation", "classifier_pooling",
    ),
    masked=Head(
        {"output_transform.dense": "head.dense", "output_transform.norm": "head.norm", "output_bias": "decoder.bias"},
        "classifier_activation",
    ),
)  # fmt: skip
NOMIC = Family(
    ("nomic_bert",), "encoder", _nomic_keys, _nomic_settings, ("nomic_bert.",), ("cls.", "classifier."), CONSTANTS
)
