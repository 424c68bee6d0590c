"""NomicBERT: BERT with rotary positions and gates, with settings as its makers or as Hugging Face name them."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import CONSTANTS, EMBEDDINGS
from dikkat.interop.family import Family, Head, block
from dikkat.interop.family_settings import ACTIVATIONS, GATED, encoder_sizes
from dikkat.interop.rotary_settings import rotary_settings

_BLOCK = {
    "self_attention.in_projection": "attn.Wqkv|rotary_packed",
    "self_attention.out_projection": "attn.out_proj",
    "self_residual.norm": "norm1",
    "feed_forward.inner": "mlp.fc12|unbiased&mlp.fc11",
    "feed_forward.outer": "mlp.fc2|unbiased",
    "feed_forward_residual.norm": "norm2",
}
_NAMES = {
    "hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer",
    "intermediate_size": "n_inner", "max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon",
    "rope_theta": "rotary_emb_base", "hidden_dropout_prob": "resid_pdrop", "attention_probs_dropout_prob": "attn_pdrop",
}  # fmt: skip


def keys(model: ModelConfig, theirs: ForeignSettings) -> dict[str, str]:
    return {**EMBEDDINGS, "embedding_norm": "emb_ln", **block("encoder.blocks", "encoder.layers", _BLOCK)}


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    never = "prenorm mlp_fc1_bias mlp_fc2_bias qkv_proj_bias causal parallel_block use_rms_norm rotary_emb_interleaved"
    for name in never.split():
        theirs.require(name, False)
    theirs.require("rotary_emb_fraction", 1.0)
    theirs.require("activation_function", "swiglu")
    own = {usual: theirs.values[name] for usual, name in _NAMES.items() if name in theirs.values}
    theirs = ForeignSettings(theirs.path, {"hidden_act": "silu", **theirs.values, **own})
    width = theirs.number("head_dim", theirs.number("hidden_size") // theirs.number("num_attention_heads"))
    return {
        **encoder_sizes(theirs, 1e-12),
        **rotary_settings(theirs, width, 1000.0),
        "activation": theirs.choice("hidden_act", "silu", ACTIVATIONS, GATED),
        "attention_bias": False,
    }


NOMIC = Family(
    ("nomic_bert",), "encoder", keys, settings, ("bert.", "nomic_bert."), ("cls.", "classifier."), CONSTANTS,
    classifier=Head({"transform.dense": "pooler.dense", "output": "classifier"}, "tanh"),
)  # fmt: skip
