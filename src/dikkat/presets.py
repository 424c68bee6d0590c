"""Named starting points: settings that differ from the defaults in `config`, which checks them."""

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "model": {
            "model_dim": 128, "num_heads": 4, "feed_forward_dim": 256, "encoder_layers": 2, "decoder_layers": 2,
        },
        "tokenizer": {"vocab_size": 2000},
        "training": {"tokens_per_batch": 2048},
    },
    "small": {},
    "base": {
        "model": {
            "model_dim": 512, "num_heads": 8, "feed_forward_dim": 2048, "encoder_layers": 6, "decoder_layers": 6,
        },
        "tokenizer": {"vocab_size": 16000},
        "training": {"learning_rate": 1e-3, "matrix_learning_rate": 2e-3, "warmup_steps": 1000},
    },
    "d2l": {
        "model": {
            "model_dim": 32, "num_heads": 4, "feed_forward_dim": 64, "encoder_layers": 2, "decoder_layers": 2,
            "attention_dropout": 0.1, "norm_placement": "post", "attention_bias": False, "tie_embeddings": False,
            "output_bias": True,
        },
        "tokenizer": {"kind": "words", "lowercase": True},
        "data": {"vocabularies": "separate", "typing_errors": 0.0, "no_final_mark": 0.0},
        "training": {
            "optimizer": "adamw", "tokens_per_batch": 640, "learning_rate": 5e-3, "beta2": 0.999, "warmup_steps": 0,
            "final_learning_rate": 1.0, "max_epochs": 200.0, "patience": 10, "label_smoothing": 0.0,
            "average": "none", "precision": "float32",
        },
    },
    "nanogpt_cpu": {
        "model": {
            "model_dim": 128, "num_heads": 4, "feed_forward_dim": 512, "decoder_layers": 4, "dropout": 0.0,
            "positions": "learned", "scale_embeddings": True,
        },
        "tokenizer": {"kind": "characters"},
        "training": {
            "optimizer": "adamw", "learning_rate": 4e-3, "beta2": 0.99, "tokens_per_batch": 768, "max_updates": 2000,
            "validations": 4, "label_smoothing": 0.0,
        },
        "language_model": {"context": 64},
    },
    "imdb_seed": {
        "model": {
            "model_dim": 32, "num_heads": 2, "feed_forward_dim": 128, "encoder_layers": 1, "norm_placement": "post",
            "attention_bias": False, "attention_output_bias": True, "embedding_norm": True, "scale_embeddings": False,
            "norm_eps": 1e-6,
        },
        "tokenizer": {"kind": "words", "vocab_size": 50002, "min_frequency": 1, "lowercase": True},
        "training": {
            "optimizer": "adamw", "tokens_per_batch": 32800, "learning_rate": 1e-3, "beta2": 0.999, "warmup_steps": 0,
            "max_epochs": 10.0, "label_smoothing": 0.0, "average": "none", "precision": "float32",
        },
        "classifier": {"max_tokens": 200, "beginning": 1.0, "pooling": "max"},
    },
}  # fmt: skip
"""Named starting points; each lists only what differs from the defaults above."""
