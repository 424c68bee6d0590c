"""The two presets of the source documents, pinned field by field; what stands here is what the documents say.

Every other field of their sections stands in `SILENT`, `OF_IMDB` or `OF_D2L`, with the reason why it may be anything.
"""

from __future__ import annotations

from typing import Any

import pytest

from dikkat.config import RunConfig, build_config, preset
from dikkat.config.model import FOREIGN_SETTINGS

IMDB: dict[str, dict[str, Any]] = {
    # TransformerClassifier(num_layers=1, d_model=32, num_heads=2, conv_hidden_dim=128), p = 0.1, norms of 1e-6
    "model": {
        "encoder_layers": 1, "model_dim": 32, "num_heads": 2, "head_dim": None, "num_kv_heads": None,
        "feed_forward_dim": 128, "dropout": 0.1, "norm": "layer", "norm_eps": 1e-6, "norm_placement": "post",
        # the attention of the lecture takes p and drops nothing
        "attention_dropout": 0.0,
        "activation": "relu", "positions": "sinusoidal", "positions_in_every_layer": False, "score": "scaled_dot",
        "inverse_temperature": None, "selection": "soft", "attention_window": None,
        # W_q, W_k and W_v have no bias, W_h has one; embeddings are not scaled, and pass a norm
        "attention_bias": False, "attention_output_bias": True, "scale_embeddings": False, "embedding_norm": True,
    },
    "tokenizer": {"kind": "words", "vocab_size": 50_002, "min_frequency": 1, "lowercase": True},
    # 164 texts of 200 words at a time, AdamW with 1e-3, ten passes
    "training": {
        "tokens_per_batch": 164 * 200, "accumulate": 1, "micro_batches": 1, "optimizer": "adamw", "learning_rate": 1e-3,
        "beta1": 0.9, "beta2": 0.999, "max_epochs": 10.0, "max_updates": None, "minutes": None, "warmup_steps": 0,
        "label_smoothing": 0.0, "average": "none", "precision": "float32", "bidirectional_share": 0.0,
        "guided_weight": 0.0,
        # where the notebook has PyTorch's defaults: no clipping, a weight decay of 0.01, one rate to the end
        "clip_norm": 1.0, "weight_decay": 0.0, "final_learning_rate": 0.0, "validations": 10, "patience": 4,
    },
    # the first 200 words, the maximum over them, cross-entropy over two answers
    "classifier": {
        "max_tokens": 200, "beginning": 1.0, "pooling": "max", "objective": "cross_entropy", "word_dropout": 0.0,
        "seen_tokens": None, "still_layers": 0,
    },
}  # fmt: skip

D2L: dict[str, dict[str, Any]] = {
    # num_hiddens, num_layers, dropout = 32, 2, 0.1; ffn_num_hiddens, num_heads = 64, 4; weights are dropped, too
    "model": {
        "encoder_layers": 2, "decoder_layers": 2, "model_dim": 32, "num_heads": 4, "head_dim": None,
        "num_kv_heads": None, "feed_forward_dim": 64, "dropout": 0.1, "attention_dropout": 0.1, "norm": "layer",
        "norm_eps": 1e-5, "norm_placement": "post", "activation": "relu", "positions": "sinusoidal",
        "positions_in_every_layer": False, "score": "scaled_dot", "inverse_temperature": None, "selection": "soft",
        "attention_window": None, "attention_bias": False, "attention_output_bias": None, "scale_embeddings": True,
        "embedding_norm": False,
        # the decoder knows what it has written by self-attention, and begins with the vector of <bos>
        "decoder_memory": "attention", "start_from_zero": False,
        # the words of a source, too, end with <eos>, and no other token is written first
        "add_source_eos": True, "target_prefix": None,
        # net.decoder.dense has a bias, src_vocab and tgt_vocab are two
        "tie_embeddings": False, "output_bias": True,
    },
    "data": {"vocabularies": "separate", "typing_errors": 0.0, "no_final_mark": 0.0},
    "tokenizer": {"kind": "words", "min_frequency": 2, "lowercase": True},
    # batch_size, num_steps = 64, 10; lr, num_epochs = 0.005, 200; Adam, gradients clipped to 1, one rate to the end,
    # which is reached: ten validations make fewer than a patience of ten without a better one after the first
    "training": {
        "tokens_per_batch": 64 * 10, "accumulate": 1, "micro_batches": 1, "optimizer": "adamw", "learning_rate": 0.005,
        "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "clip_norm": 1.0, "max_epochs": 200.0, "max_updates": None,
        "minutes": None, "validations": 10, "patience": 10, "warmup_steps": 0, "final_learning_rate": 1.0,
        "label_smoothing": 0.0, "average": "none", "precision": "float32", "bidirectional_share": 0.0,
        "guided_weight": 0.0,
    },
}  # fmt: skip


SILENT: dict[str, set[str]] = {
    # the data decides on vocabularies; a table of learned positions and global tokens of a window are not there
    "model": {
        *("vocab_size", "target_vocab_size", "max_positions", "global_tokens"),
        # only imported models have them; no preset sets one
        *FOREIGN_SETTINGS,
        "relative_range",
    },
    "classifier": {"transform", "transform_norm"},
    # Muon and the moving average are not used, no head is guided, and nothing that is saved changes what is learned
    "training": {
        "seed",
        # one model, all of whose weights are trained
        "members",
        "student",
        "low_rank",
        "matrix_learning_rate",
        "ema_decay",
        "save_minutes",
        "keep_checkpoints",
        "guided_layer",
        "guided_head",
    },
}
"""Fields that are not pinned, since they may have any value: by section, with the reason."""
OF_IMDB: dict[str, set[str]] = {
    # there is no decoder
    "model": {
        "decoder_layers",
        "decoder_memory",
        "start_from_zero",
        "add_source_eos",
        "target_prefix",
        "tie_embeddings",
        "output_bias",
    },
    # how a user's file is read, and no choice of words
    "classifier": {"label_separator", "balance", "precision_at", "word_table", "table_rise", "baseline"},
}
OF_D2L: dict[str, set[str]] = {
    # 600 pairs have fewer words
    "tokenizer": {"vocab_size"},
    # what of a user's file is held out, left out or marked; the textbook's pairs are all short
    "data": {
        "source_language", "target_language", "formality", "max_length", "max_ratio", "validation_pairs", "test_pairs",
    },
}  # fmt: skip


def settings_of(name: str, wanted: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of the fields that are wanted, what a run with the preset has."""
    config: RunConfig = build_config(preset(name))
    return {section: {key: getattr(getattr(config, section), key) for key in keys} for section, keys in wanted.items()}


@pytest.mark.seed("A28")
def test_the_preset_is_the_recipe_of_the_lecture_field_by_field() -> None:
    assert settings_of("imdb_seed", IMDB) == IMDB


@pytest.mark.seed("E10", "E11")
def test_the_preset_is_the_recipe_of_the_textbook_field_by_field() -> None:
    assert settings_of("d2l", D2L) == D2L


@pytest.mark.parametrize(("pinned", "own"), [(IMDB, OF_IMDB), (D2L, OF_D2L)])
def test_no_field_is_forgotten(pinned: dict[str, dict[str, Any]], own: dict[str, set[str]]) -> None:
    for section, values in pinned.items():
        fields = set(type(getattr(build_config({}), section)).model_fields)
        silent = SILENT.get(section, set()) | own.get(section, set())
        assert values.keys() | silent == fields
        assert not values.keys() & silent


@pytest.mark.parametrize(("name", "pinned"), [("imdb_seed", IMDB), ("d2l", D2L)])
def test_a_preset_sets_nothing_that_is_not_pinned(name: str, pinned: dict[str, dict[str, Any]]) -> None:
    for section, values in preset(name).items():
        assert values.keys() <= pinned[section].keys()
