"""ALBERT: one layer that stands for all, of which each of ours gets a copy, and embeddings narrower than the model."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import CONSTANTS, EMBEDDINGS
from dikkat.interop.family import Family, Head, masked_head
from dikkat.interop.family_settings import encoder_sizes

_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
_BLOCK = {
    "self_attention.in_projection": "&".join(f"{_LAYER}.attention.{part}" for part in ("query", "key", "value")),
    "self_attention.out_projection": f"{_LAYER}.attention.dense",
    "self_residual.norm": f"{_LAYER}.attention.LayerNorm",
    "feed_forward.inner": f"{_LAYER}.ffn",
    "feed_forward.outer": f"{_LAYER}.ffn_output",
    "feed_forward_residual.norm": f"{_LAYER}.full_layer_layer_norm",
}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        **EMBEDDINGS,
        "embedding_norm.norm": "embeddings.LayerNorm",
        "embedding_norm.projection": "encoder.embedding_hidden_mapping_in",
        "pooler.dense": "pooler",
        **{f"encoder.blocks.*.{name}": source for name, source in _BLOCK.items()},
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("num_hidden_groups", 1)
    theirs.require("inner_group_num", 1)
    theirs.require("position_embedding_type", "absolute")
    sizes = encoder_sizes(ForeignSettings(theirs.path, {"hidden_act": "gelu_new", **theirs.values}), 1e-12)
    return {**sizes, "embedding_dim": theirs.number("embedding_size", 128)}


ALBERT = Family(
    ("albert",), "encoder", keys, settings, ("albert.",),
    ("predictions.", "sop_classifier.", "classifier.", "qa_outputs."), CONSTANTS,
    classifier=Head({"transform.dense": "pooler", "output": "classifier"}, "tanh"),
    masked=masked_head("predictions.dense", "predictions.LayerNorm", "predictions.bias", "hidden_act"),
)  # fmt: skip
