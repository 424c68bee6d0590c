"""The files beside the graphs, by which transformers.js loads them: settings, tokenizers, readme."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dikkat.interop.exported_texts import TABLE_ROWS, longest_text, tokenizer_files
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

_IDS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}

JAVASCRIPT: Mapping[str, Any] = {"transformers.js_config": {"dtype": "fp32"}}
"""What transformers.js is told in a config.json: else it looks for graphs of eight bits."""


def settings_files(translator: TrainedTranslator) -> dict[str, bytes]:
    """Return the settings and the tokenizers of a folder, by their names."""
    longest = longest_text(translator)
    files: dict[str, Mapping[str, Any]] = {
        "config.json": _config(translator),
        "generation_config.json": {"num_beams": 1, "max_length": longest or TABLE_ROWS, **_IDS},
        **tokenizer_files(translator),
    }
    return json_files(files)


def json_files(files: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the contents of files of JSON, by their names."""
    return {name: (json.dumps(one, indent=2, ensure_ascii=False) + "\n").encode() for name, one in files.items()}


def _config(translator: TrainedTranslator) -> dict[str, Any]:
    model = translator.model
    return {
        # the class by which transformers.js runs an encoder and a decoder; the graphs say what is computed
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": model.vocab_size,
        "decoder_vocab_size": model.target_vocab_size or model.vocab_size,
        "d_model": model.model_dim,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.feed_forward_dim,
        "decoder_ffn_dim": model.feed_forward_dim,
        **JAVASCRIPT,
        **_IDS,
    }
