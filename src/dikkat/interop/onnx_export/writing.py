"""Write the model of a run as graphs of ONNX, compared with the run before they take their name."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from dikkat.interop.exported_texts import TABLE_ROWS, longest_text, tokenizer_files
from dikkat.interop.onnx_export.program import DECODER, ENCODER, MODEL, OnnxClassifier, OnnxTranslator, OnnxWriter
from dikkat.interop.onnx_export.readme import classifier_readme, language_model_readme, readme
from dikkat.interop.parity import SENTENCES
from dikkat.interop.text_parity import export_checked, write_files
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator, refuse_settings
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from onnx import ModelProto


# The files next to the graphs, by which transformers.js loads them: settings, tokenizers, readme.

_IDS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}

JAVASCRIPT: Mapping[str, Any] = {"transformers.js_config": {"dtype": "fp32"}}
"""What transformers.js is told in a config.json: else it looks for graphs of eight bits."""


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
        **{name: _IDS[name] for name in ("pad_token_id", "bos_token_id", "eos_token_id")},
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


MAX_FILE_SIZE = (1 << 31) - (1 << 20)
"""Bytes of the weights of a graph: the format holds 2 GiB a file."""


def export_onnx(run: Path, out: Path, count: int = SENTENCES) -> str:
    """Write the folder `out`, new or empty, and return how it was compared with the run, by `count` texts.

    Raises `UsageError` where ONNX is not installed, or a model is too large for it, `DataError` where the graphs
    compute something else, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise UsageError("--to onnx needs onnx and onnxruntime: pip install 'dikkat[onnx]'")
    return export_checked(run, out, "onnx", (_write_translator, _write_classifier, _write_language_model), count)


def _write_translator(translator: TrainedTranslator, draft: Path, name: str) -> OnnxTranslator:
    from dikkat.interop.onnx_export.decoder import decoder_graph
    from dikkat.interop.onnx_export.encoder import encoder_graph

    network, longest = translator.network, longest_text(translator)
    refuse_settings(translator, "ONNX", {"target_prefix": None})
    _check_size(translator.run, network)
    files = {
        "config.json": _config(translator),
        "generation_config.json": {"num_beams": 1, "max_length": longest or TABLE_ROWS, **_IDS},
        **tokenizer_files(translator),
        "README.md": readme(translator, name),
    }
    _write(draft, {ENCODER: encoder_graph(network), DECODER: decoder_graph(network)}, files)
    return OnnxTranslator(draft, add_source_eos=translator.model.add_source_eos)


def _write_classifier(trained: TrainedClassifier, draft: Path, name: str) -> OnnxClassifier:
    from dikkat.interop.onnx_export.encoder import classifier_graph

    _check_size(trained.run, trained.network)
    graph = classifier_graph(trained.network, trained.temperature, trained.longest)
    files = {
        "config.json": _classifier_config(trained),
        **trained.tokenizer_files(),
        "README.md": classifier_readme(trained, name),
    }
    _write(draft, {MODEL: graph}, files)
    return OnnxClassifier(draft)


def _write_language_model(trained: TrainedLanguageModel, draft: Path, name: str) -> OnnxWriter:
    from dikkat.interop.onnx_export.language_model import language_model_graph

    _check_size(trained.run, trained.network)
    never = trained.special_tokens.never_written
    graph = language_model_graph(trained.network, never, table_rows=max(TABLE_ROWS, trained.longest))
    files = {
        "config.json": _language_model_config(trained),
        "generation_config.json": {"do_sample": False, "max_length": trained.longest, **trained.special_ids},
        **trained.tokenizer_files(),
        "README.md": language_model_readme(trained, name),
    }
    _write(draft, {MODEL: graph}, files)
    return OnnxWriter(draft)


def _check_size(run: Path, network: nn.Module) -> None:
    """Raise `UsageError` for weights that no file of the format holds."""
    size = 4 * sum(parameter.numel() for parameter in network.parameters())
    if size > MAX_FILE_SIZE:
        raise UsageError("{run}: its weights are {size:,} bytes, and a file of ONNX holds {max_file_size:,}").fill(
            run, size, MAX_FILE_SIZE
        )


def _write(draft: Path, graphs: "Mapping[str, ModelProto]", files: Mapping[str, Any]) -> None:
    (draft / "onnx").mkdir()
    write_files(draft, {**{name: graph.SerializeToString() for name, graph in graphs.items()}, **files})
