"""The files beside the graphs, by which transformers.js loads them: settings, tokenizers, readme."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dikkat.interop.exported_texts import TABLE_ROWS, longest_text, tokenizer_files
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
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


# The files beside the graph of a classifier or a language model, by which transformers.js loads it.


def classifier_files(trained: TrainedClassifier) -> dict[str, bytes]:
    """Return settings and tokenizer of a classifier, by the names of their files."""
    return json_files({"config.json": _classifier_config(trained), **trained.tokenizer_files()})


def language_model_files(trained: TrainedLanguageModel) -> dict[str, bytes]:
    """Return settings and tokenizer of a language model, by the names of their files."""
    generation = {"do_sample": False, "max_length": trained.longest, **trained.special_ids}
    files = {"config.json": _language_model_config(trained), "generation_config.json": generation}
    return json_files({**files, **trained.tokenizer_files()})


def _classifier_config(trained: TrainedClassifier) -> Mapping[str, Any]:
    model = trained.model
    kind = "multi_label" if trained.is_multi_label else "single_label"
    return {
        # the class by which transformers.js runs an encoder with classes; the graph says what is computed
        "architectures": ["DistilBertForSequenceClassification"],
        "model_type": "distilbert",
        "problem_type": f"{kind}_classification",
        "id2label": {str(number): label for number, label in enumerate(trained.labels)},
        "label2id": {label: number for number, label in enumerate(trained.labels)},
        **trained.cut_settings,
        "vocab_size": model.vocab_size,
        "dim": model.model_dim,
        "hidden_dim": model.feed_forward_dim,
        "n_layers": model.encoder_layers,
        "n_heads": model.num_heads,
        "max_position_embeddings": trained.longest,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        **JAVASCRIPT,
    }


def _language_model_config(trained: TrainedLanguageModel) -> Mapping[str, Any]:
    model = trained.model
    return {
        # the class by which transformers.js runs a decoder; the graph says what is computed
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.vocab_size,
        "hidden_size": model.model_dim,
        "intermediate_size": model.feed_forward_dim,
        "num_hidden_layers": model.decoder_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads or model.num_heads,
        "head_dim": model.head_dim or model.model_dim // model.num_heads,
        "max_position_embeddings": trained.longest,
        **trained.special_ids,
        **JAVASCRIPT,
    }
