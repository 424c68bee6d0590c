"""GPT-2 (Radford et al. 2019) as stored by Hugging Face: its names of weights and settings, and ours.

Its matrices are those of `Conv1D`, which keeps them as (inputs, outputs); query, key and value are packed as ours are.
"""

from __future__ import annotations

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings, same
from dikkat.models.key_table import Row, layer, stacked
from dikkat_runtime.errors import DataError

PREFIX = "transformer."
"""Prefix of every name in a checkpoint that has a head."""

HEADS = ("score.",)
"""Heads of other tasks, which are not part of a language model."""

CONSTANTS = (".attn.bias", ".attn.masked_bias")
"""The causal mask, which old checkpoints store."""

OUTPUT = "lm_head.weight"

_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}

_BLOCK = (
    *layer("self_attention.in_projection", "attn.c_attn", transposed=True),
    *layer("self_attention.out_projection", "attn.c_proj", transposed=True),
    *layer("self_residual.norm", "ln_1"),
    *layer("feed_forward.inner", "mlp.c_fc", transposed=True),
    *layer("feed_forward.outer", "mlp.c_proj", transposed=True),
    *layer("feed_forward_residual.norm", "ln_2"),
)


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a language model of these settings."""
    embedding = Row("output_weight", ("wte.weight",))
    untied = (Row("embedding.weight", ("wte.weight",)), Row("output_weight", (OUTPUT,)))
    return [
        *((embedding,) if model.tie_embeddings else untied),
        Row("positions.embedding", ("wpe.weight",)),
        *stacked(_BLOCK, "decoder.blocks", "h", model.decoder_layers),
        *layer("decoder.final_norm", "ln_f"),
    ]


def model_settings(theirs: ForeignSettings) -> dict[str, object]:
    """Return the settings of our model that computes the same. Raises `DataError` where there is none."""
    theirs.require("scale_attn_weights", True)
    theirs.require("scale_attn_by_inverse_layer_idx", False)
    theirs.require("add_cross_attention", False)
    model_dim = theirs.number("n_embd")
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": model_dim,
        "num_heads": theirs.number("n_head"),
        "feed_forward_dim": theirs.number("n_inner", 4 * model_dim),
        "decoder_layers": theirs.number("n_layer"),
        "max_positions": theirs.number("n_positions"),
        "dropout": theirs.number("resid_pdrop", 0.1),
        "attention_dropout": theirs.number("attn_pdrop", 0.1),
        "activation": theirs.choice("activation_function", "gelu_new", _ACTIVATIONS),
        "norm_eps": theirs.number("layer_norm_epsilon", 1e-5),
        "norm_placement": "pre",
        "positions": "learned",
        "scale_embeddings": False,
        "tie_embeddings": theirs.values.get("tie_word_embeddings", True),
    }


def without_copy(checkpoint: Checkpoint) -> None:
    """Remove the output matrix of a tied model, which is its embedding stored twice.

    Raises `DataError` if it is another one.
    """
    output = checkpoint.weights.pop(OUTPUT, None)
    if output is not None and not same(output, checkpoint.weights.get("wte.weight", output)):
        raise DataError("{path}: {output} is to be tied to wte.weight, but differs from it", checkpoint.path, OUTPUT)
