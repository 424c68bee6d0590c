"""DistilBERT: BERT without token types, by other names."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import EMBEDDINGS
from dikkat.interop.family import Family, Head, block, masked_head
from dikkat.interop.family_settings import encoder_sizes

_BLOCK = {
    "self_attention.in_projection": "attention.q_lin&attention.k_lin&attention.v_lin",
    "self_attention.out_projection": "attention.out_lin",
    "self_residual.norm": "sa_layer_norm",
    "feed_forward.inner": "ffn.lin1",
    "feed_forward.outer": "ffn.lin2",
    "feed_forward_residual.norm": "output_layer_norm",
}
_NAMES = {
    "hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers",
    "intermediate_size": "hidden_dim", "hidden_act": "activation", "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}  # fmt: skip


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {**EMBEDDINGS, "segment_embedding": "0", **block("encoder.blocks", "transformer.layer", _BLOCK)}


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    own = {usual: theirs.values[name] for usual, name in _NAMES.items() if name in theirs.values}
    return encoder_sizes(ForeignSettings(theirs.path, {**theirs.values, **own}), 1e-12)


DISTILBERT = Family(
    ("distilbert",), "encoder", keys, settings, ("distilbert.",),
    ("vocab_", "pre_classifier.", "classifier.", "qa_outputs."), ("embeddings.position_ids",), layers="n_layers",
    classifier=Head({"transform.dense": "pre_classifier", "output": "classifier"}, "relu"),
    masked=masked_head("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "activation"),
)  # fmt: skip
