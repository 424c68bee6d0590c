"""The files beside the graph of a classifier or a language model, by which transformers.js loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dikkat.interop.fast_tokenizer import fast_tokenizer_files
from dikkat.interop.onnx_export.settings_files import JAVASCRIPT, json_files
from dikkat.interop.trained_classifier import TrainedClassifier
from dikkat.interop.trained_language_model import TrainedLanguageModel
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer


def classifier_files(trained: TrainedClassifier) -> dict[str, bytes]:
    """Return settings and tokenizer of a classifier, by the names of their files."""
    return json_files({"config.json": _classifier_config(trained), **trained.tokenizer_files()})


def language_model_files(trained: TrainedLanguageModel) -> dict[str, bytes]:
    """Return settings and tokenizer of a language model, by the names of their files."""
    generation = {"do_sample": False, "max_length": trained.longest, **special_ids(trained)}
    files = {"config.json": _language_model_config(trained), "generation_config.json": generation}
    return json_files({**files, **language_model_tokenizer_files(trained)})


def language_model_tokenizer_files(trained: TrainedLanguageModel) -> dict[str, dict[str, Any]]:
    """Return the tokenizer of a language model, which adds no marks; a foreign one stays as it is."""
    if not isinstance(trained.tokenizer, ForeignTokenizer):
        return fast_tokenizer_files(trained.tokenizer_settings, trained.longest, add_eos=False)
    labels = {
        f"{name.removesuffix('_id')}": trained.tokenizer.pieces([number])[0]
        for name, number in special_ids(trained).items()
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **labels,
        "model_max_length": trained.longest,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return {"tokenizer.json": dict(trained.tokenizer_settings), "tokenizer_config.json": settings}


def special_ids(trained: TrainedLanguageModel) -> dict[str, int]:
    """Return the ids of padding, begin and end of a language model, those that it has."""
    marks = trained.special_tokens
    pad = trained.tokenizer.pad_id if isinstance(trained.tokenizer, ForeignTokenizer) else PAD_ID
    ids = {"pad_token_id": pad, "bos_token_id": marks.begin, "eos_token_id": marks.end}
    return {name: number for name, number in ids.items() if number is not None}


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
        **special_ids(trained),
        **JAVASCRIPT,
    }
