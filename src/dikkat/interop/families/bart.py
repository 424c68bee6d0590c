"""BART, mBART, PEGASUS and M2M100 (NLLB): one block, with norms before or after, and positions of three kinds."""

from collections.abc import Collection, Sequence
from functools import partial

from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Derived, Family, Keys, block
from dikkat.interop.family_settings import ACTIVATIONS
from dikkat.nn.positions import sinusoids

_SHARED = "shared.weight"
_SKIPPED = 2  # rows of a table of positions before the first one


def _attention(ours: str, theirs: str) -> dict[str, str]:
    parts = "&".join(f"{theirs}.{part}_proj" for part in "qkv")
    return {f"{ours}.in_projection": parts, f"{ours}.out_projection": f"{theirs}.out_proj"}


ENCODER = {
    **_attention("self_attention", "self_attn"),
    "self_residual.norm": "self_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
_DECODER = {**_attention("cross_attention", "encoder_attn"), "cross_residual.norm": "encoder_attn_layer_norm"}


def _computed(first: int, model: ModelConfig, parts: Sequence[Tensor]) -> Tensor:
    return sinusoids(model.max_positions + first, model.model_dim, "concatenated")[first:]


def keys(model: ModelConfig, theirs: ForeignSettings) -> Keys:
    is_m2m = theirs.values["model_type"] == "m2m_100"
    table: dict[str, str | Derived] = {
        "output_weight": _SHARED,
        "output_bias": "0" if is_m2m else "final_logits_bias|flat",
        **block("encoder.blocks", "encoder.layers", ENCODER),
        **block("decoder.blocks", "decoder.layers", {**ENCODER, **_DECODER}),
        **{f"{stack}.final_norm": f"{stack}.layer_norm" for stack in ("encoder", "decoder")},
    }
    for prefix, stack in (("", "encoder"), ("target_", "decoder")):
        stored = f"{stack}.embed_positions.weight|from={_SKIPPED}"
        computed = Derived((), partial(_computed, theirs.number("pad_token_id", 1) + 1))
        table[f"{prefix}positions.embedding"] = computed if is_m2m else stored
        table[f"{prefix}embedding_norm"] = f"{stack}.layernorm_embedding"
    return table


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    kind = theirs.values["model_type"]
    heads, hidden = theirs.number("encoder_attention_heads"), theirs.number("encoder_ffn_dim")
    for name, only in (("decoder_attention_heads", heads), ("decoder_ffn_dim", hidden), ("tie_word_embeddings", True)):
        theirs.require(name, only)
    return {
        "vocab_size": theirs.number("vocab_size"), "model_dim": theirs.number("d_model"),
        "num_heads": heads, "feed_forward_dim": hidden,
        "encoder_layers": theirs.number("encoder_layers"), "decoder_layers": theirs.number("decoder_layers"),
        "max_positions": theirs.number("max_position_embeddings"),
        "dropout": theirs.number("dropout", 0.1), "attention_dropout": theirs.number("attention_dropout", 0.0),
        "activation": theirs.choice("activation_function", "relu" if kind == "m2m_100" else "gelu", ACTIVATIONS),
        "norm_placement": "post" if kind == "bart" else "pre",
        "positions": "sinusoidal_halves" if kind == "pegasus" else "learned",
        "scale_embeddings": theirs.values.get("scale_embedding", kind == "m2m_100") is True,
        "embedding_norm": kind in ("bart", "mbart"), "output_bias": True,
        "shared_positions": kind not in ("bart", "mbart"),
    }  # fmt: skip


BART = Family(("bart", "mbart"), "translator", keys, settings, ("model.",), ("classification_head.",))
OTHERS = Family(
    ("pegasus", "m2m_100"), "translator", keys, settings, ("model.",), constants=("embed_positions.weight",)
)
