"""ModernBERT: rotary positions, gates, no biases, and attention within a window in two layers of three."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, Head, block, masked_head
from dikkat.interop.family_settings import ACTIVATIONS, GATED, encoder_sizes
from dikkat.interop.rotary_settings import rotary_settings, window_frequencies

_BLOCK = {
    "self_attention.in_projection": "attn.Wqkv|rotary_packed",
    "self_attention.out_projection": "attn.Wo",
    "self_residual.norm": "attn_norm|unbiased",
    "feed_forward.inner": "mlp.Wi|unbiased",
    "feed_forward.outer": "mlp.Wo|unbiased",
    "feed_forward_residual.norm": "mlp_norm|unbiased",
}
_WORDS = "embeddings.tok_embeddings.weight"


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        "embedding.weight": _WORDS,
        "output_weight": _WORDS,
        "segment_embedding": "0",
        "embedding_norm": "embeddings.norm|unbiased",
        **{f"{stack}.final_norm": "final_norm|unbiased" for stack in ("encoder", "decoder")},
        **block("encoder.blocks", "layers", _BLOCK),
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    for name in ("norm_bias", "mlp_bias", "classifier_bias"):
        theirs.require(name, False)
    every, layers = theirs.number("global_attn_every_n_layers", 3), theirs.number("num_hidden_layers")
    usual = ["sliding_attention" if layer % every else "full_attention" for layer in range(layers)]
    kinds = theirs.values.get("layer_types") or usual
    width = theirs.number("hidden_size") // theirs.number("num_attention_heads")
    return {
        **encoder_sizes(theirs, 1e-5, eps="norm_eps"),
        **rotary_settings(theirs, width, theirs.number("global_rope_theta", 160000.0), kind="full_attention"),
        **window_frequencies(theirs, width, theirs.number("local_rope_theta", 10000.0)),
        "activation": theirs.choice("hidden_activation", "gelu", ACTIVATIONS, GATED),
        "norm_placement": "pre",
        "first_norm": False,
        "attention_bias": theirs.values.get("attention_bias", False) is True,
        "attention_window": theirs.number("local_attention", 128) // 2,
        "layer_kinds": tuple("full" if kind == "full_attention" else "window" for kind in kinds),
    }


_HEAD = {"transform.dense": "head.dense|unbiased", "transform.norm": "head.norm|unbiased", "output": "classifier"}
_ACTIVATION = "classifier_activation"
MODERN = Family(
    ("modernbert",), "encoder", keys, settings, ("model.",), ("head.", "decoder.", "classifier."),
    classifier=Head(_HEAD, _ACTIVATION, "classifier_pooling"),
    tagger=Head(_HEAD, _ACTIVATION),
    masked=masked_head("head.dense|unbiased", "head.norm|unbiased", "decoder.bias", _ACTIVATION),
)  # fmt: skip
