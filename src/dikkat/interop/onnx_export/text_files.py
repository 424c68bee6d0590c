"""The files beside the graph of a classifier or a language model, by which transformers.js loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dikkat.interop.onnx_export.settings_files import JAVASCRIPT, json_files
from dikkat.interop.trained_classifier import TrainedClassifier
from dikkat.interop.trained_language_model import TrainedLanguageModel
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID


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
