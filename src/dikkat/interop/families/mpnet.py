"""MPNet: learned positions, and a bias of buckets of distances that all layers share."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import BLOCK, CONSTANTS, EMBEDDINGS
from dikkat.interop.family import Family, Head, block, masked_head
from dikkat.interop.family_settings import encoder_sizes

_BLOCK = {
    **BLOCK,
    "self_attention.in_projection": "attention.attn.q&attention.attn.k&attention.attn.v",
    "self_attention.out_projection": "attention.attn.o",
    "self_residual.norm": "attention.LayerNorm",
}
_SKIPPED = 2  # rows of the table of positions before the first one, whatever the number of the padding


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {
        **EMBEDDINGS,
        "positions.embedding": f"{EMBEDDINGS['positions.embedding']}|from={_SKIPPED}",
        "segment_embedding": "0",
        **block("encoder.blocks", "encoder.layer", _BLOCK),
        "encoder.blocks.*.self_attention.comparison.bias.embedding": "encoder.relative_attention_bias.weight",
    }


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("relative_attention_num_buckets", 32)
    rows = theirs.number("max_position_embeddings") - _SKIPPED
    return {**encoder_sizes(theirs, 1e-12), "max_positions": rows, "relative_bias": True}


MPNET = Family(
    ("mpnet",), "encoder", keys, settings, ("mpnet.",), ("lm_head.", "classifier.", "qa_outputs."), CONSTANTS,
    classifier=Head({"transform.dense": "classifier.dense", "output": "classifier.out_proj"}, "tanh"),
    masked=masked_head("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "gelu"),
)  # fmt: skip
