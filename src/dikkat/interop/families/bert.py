"""BERT (Devlin et al. 2019) and those with its names: RoBERTa, XLM-R, CamemBERT and ELECTRA."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Family, Head, block, masked_head
from dikkat.interop.family_settings import encoder_sizes

BLOCK = {
    "self_attention.in_projection": "attention.self.query&attention.self.key&attention.self.value",
    "self_attention.out_projection": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}
EMBEDDINGS = {
    "embedding.weight": "embeddings.word_embeddings.weight",
    "output_weight": "embeddings.word_embeddings.weight",
    "positions.embedding": "embeddings.position_embeddings.weight",
    "segment_embedding": "embeddings.token_type_embeddings.weight",
    "embedding_norm": "embeddings.LayerNorm",
    "pooler.dense": "pooler.dense",
}
CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")
ROBERTA = ("roberta", "xlm-roberta", "camembert")
_ELECTRA = {"embedding_norm.norm": EMBEDDINGS["embedding_norm"], "embedding_norm.projection": "embeddings_project"}


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    table = {**EMBEDDINGS, **block("encoder.blocks", "encoder.layer", BLOCK)}
    if theirs.values["model_type"] in ROBERTA:
        # positions are counted from after the number of the padding
        table["positions.embedding"] += f"|from={theirs.number('pad_token_id', 1) + 1}"
    return table if model.embedding_dim is None else {**table, **_ELECTRA}


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("position_embedding_type", "absolute")
    theirs.require("is_decoder", False)
    theirs.require("add_cross_attention", False)
    sizes = encoder_sizes(theirs, 1e-12)
    if theirs.values["model_type"] in ROBERTA:
        sizes["max_positions"] = theirs.number("max_position_embeddings") - theirs.number("pad_token_id", 1) - 1
    dim, embedding_dim = sizes["model_dim"], theirs.number("embedding_size", 128)
    if theirs.values["model_type"] == "electra" and embedding_dim != dim:
        sizes["embedding_dim"] = embedding_dim
    return sizes


_BIAS = "cls.predictions.bias"
_PREDICTED = "cls.predictions.transform"
PREDICTED = masked_head(f"{_PREDICTED}.dense", f"{_PREDICTED}.LayerNorm", _BIAS, "hidden_act")
_CLASSIFIED = {"transform.dense": "classifier.dense", "output": "classifier.out_proj"}
BERT = Family(
    ("bert",), "encoder", keys, settings, ("bert.",), ("cls.", "classifier.", "qa_outputs."), CONSTANTS,
    classifier=Head({"transform.dense": "pooler.dense", "output": "classifier"}, "tanh"),
    masked=PREDICTED,
)  # fmt: skip
LIKE_ROBERTA = Family(
    ROBERTA, "encoder", keys, settings, ("roberta.",), ("lm_head.", "classifier.", "qa_outputs."), CONSTANTS,
    classifier=Head(_CLASSIFIED, "tanh"),
    masked=masked_head("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "gelu"),
)  # fmt: skip
_GENERATOR = "generator_predictions"
ELECTRA = Family(
    ("electra",), "encoder", keys, settings, ("electra.",),
    ("generator_", "discriminator_", "classifier.", "qa_outputs."), CONSTANTS,
    classifier=Head(_CLASSIFIED, "gelu"),
    masked=masked_head(f"{_GENERATOR}.dense", f"{_GENERATOR}.LayerNorm", "generator_lm_head.bias", "gelu"),
)  # fmt: skip
