"""The files beside the graphs, by which transformers.js loads them: settings, tokenizers, readme."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from dikkat.config.position_names import ABSOLUTE_POSITIONS
from dikkat.interop.fast_tokenizer import fast_tokenizer_files
from dikkat.interop.onnx_export.position_nodes import TABLE_ROWS
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.engine.run_directory import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.text.casing import has_dotted_i

_IDS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}


def settings_files(translator: TrainedTranslator) -> dict[str, bytes]:
    """Return the settings and the tokenizers of a folder, by their names."""
    settings, longest = translator.tokenizer_settings, longest_text(translator)
    files: dict[str, Mapping[str, Any]] = {
        "config.json": _config(translator),
        "generation_config.json": {"num_beams": 1, "max_length": longest or TABLE_ROWS, **_IDS},
        **fast_tokenizer_files(settings[0], longest, add_eos=translator.model.add_source_eos),
    }
    if len(settings) > 1:
        files[TARGET_TOKENIZER] = settings[1]
    return {name: (json.dumps(one, indent=2, ensure_ascii=False) + "\n").encode() for name, one in files.items()}


def longest_text(translator: TrainedTranslator) -> int | None:
    """Return the most tokens of a source or a target that the graphs take, a mark included; None is without end."""
    if translator.max_positions is not None:
        return translator.max_positions
    return TABLE_ROWS if translator.model.positions in (*ABSOLUTE_POSITIONS, "rotary") else None


def target_file(translator: TrainedTranslator) -> str:
    """Return the name of the file with the tokenizer of the target, which may be that of both sides."""
    return TARGET_TOKENIZER if len(translator.tokenizer_settings) > 1 else "tokenizer.json"


def lowercases_dotted(translator: TrainedTranslator) -> bool:
    """Return whether the source is lower-cased by the rule of Turkish, which the library tokenizers does not know."""
    return '"Lowercase"' in json.dumps(translator.tokenizer_settings[0]) and has_dotted_i(translator.languages.source)


def dotted_lower(text: str) -> str:
    """Return a text in the lower case of Turkish, as the Python of the readme writes it before it is cut."""
    return normalize("NFC", text).replace("İ", "i").replace("I", "ı").lower()


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
        # else it looks for graphs of eight bits
        "transformers.js_config": {"dtype": "fp32"},
        **_IDS,
    }
