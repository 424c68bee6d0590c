"""Write the model of a run as graphs of ONNX, compared with the run before they take their name."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from dikkat.interop.exported_texts import TABLE_ROWS, longest_text, tokenizer_files
from dikkat.interop.parity import whole_folder
from dikkat.interop.trained_network import exported_kind
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from onnx import ModelProto


# The files next to the graphs, by which transformers.js loads them: settings, tokenizers, readme.

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


# The files next to the graph of a classifier or a language model, by which transformers.js loads it.


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


MAX_FILE_SIZE = (1 << 31) - (1 << 20)
"""Bytes of the weights of a graph: the format holds 2 GiB a file."""


def export_onnx(run: Path, out: Path, count: int | None = None) -> str:
    """Write the folder `out`, new or empty, and return how it was compared with the run, by `count` texts.

    Raises `UsageError` where ONNX is not installed, or a model is too large for it, `DataError` where the graphs
    compute something else, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise UsageError("--to onnx needs onnx and onnxruntime: pip install 'dikkat[onnx]'")
    write = {"translator": _write_translator, "classifier": _write_classifier, "lm": _write_language_model}
    with whole_folder(out) as draft:
        kind = exported_kind(run)
        if kind not in write:
            raise UsageError("{run}: --to onnx writes translators, classifiers and language models", run)
        return write[kind](run, draft, out.resolve().name, count)


def _write_translator(run: Path, draft: Path, name: str, count: int | None) -> str:
    from dikkat.interop.onnx_export.decoder import decoder_graph
    from dikkat.interop.onnx_export.encoder import encoder_graph
    from dikkat.interop.onnx_export.program import DECODER, ENCODER, OnnxTranslator
    from dikkat.interop.onnx_export.readme import readme
    from dikkat.interop.parity import SENTENCES, check_folder
    from dikkat.interop.trained_translator import TrainedTranslator, refuse_settings

    translator = TrainedTranslator.open(run)
    network = translator.network
    refuse_settings(run, "ONNX", {"model.target_prefix": (translator.model.target_prefix, None)})
    _check_size(run, network)
    graphs = {ENCODER: encoder_graph(network), DECODER: decoder_graph(network)}
    _write(draft, graphs, {**settings_files(translator), "README.md": readme(translator, name).encode()})
    program = OnnxTranslator(draft, add_source_eos=translator.model.add_source_eos)
    return str(check_folder(translator, draft, program, SENTENCES if count is None else count))


def _write_classifier(run: Path, draft: Path, name: str, count: int | None) -> str:
    from dikkat.interop.onnx_export.encoder import classifier_graph
    from dikkat.interop.onnx_export.program import MODEL, OnnxClassifier
    from dikkat.interop.onnx_export.readme import classifier_readme
    from dikkat.interop.text_parity import TEXTS, check_classifier
    from dikkat.interop.trained_text_model import TrainedClassifier

    trained = TrainedClassifier.open(run)
    _check_size(run, trained.network)
    graph = classifier_graph(trained.network, trained.temperature, trained.longest)
    _write(draft, {MODEL: graph}, {**classifier_files(trained), "README.md": classifier_readme(trained, name).encode()})
    return str(check_classifier(trained, draft, OnnxClassifier(draft), TEXTS if count is None else count))


def _write_language_model(run: Path, draft: Path, name: str, count: int | None) -> str:
    from dikkat.interop.onnx_export.language_model import language_model_graph
    from dikkat.interop.onnx_export.program import MODEL, OnnxWriter
    from dikkat.interop.onnx_export.readme import language_model_readme
    from dikkat.interop.text_parity import TEXTS, check_language_model
    from dikkat.interop.trained_text_model import TrainedLanguageModel

    trained = TrainedLanguageModel.open(run)
    _check_size(run, trained.network)
    never = trained.special_tokens.never_written
    graph = language_model_graph(trained.network, never, table_rows=max(TABLE_ROWS, trained.longest))
    readme = language_model_readme(trained, name).encode()
    _write(draft, {MODEL: graph}, {**language_model_files(trained), "README.md": readme})
    return str(check_language_model(trained, draft, OnnxWriter(draft), TEXTS if count is None else count))


def _check_size(run: Path, network: nn.Module) -> None:
    """Raise `UsageError` for weights that no file of the format holds."""
    size = 4 * sum(parameter.numel() for parameter in network.parameters())
    if size > MAX_FILE_SIZE:
        raise UsageError("{run}: its weights are {size:,} bytes, and a file of ONNX holds {max_file_size:,}").fill(
            run, size, MAX_FILE_SIZE
        )


def _write(draft: Path, graphs: "Mapping[str, ModelProto]", files: Mapping[str, bytes]) -> None:
    (draft / "onnx").mkdir()
    for name, graph in graphs.items():
        write_atomically(draft / name, graph.SerializeToString())
    for name, content in files.items():
        write_atomically(draft / name, content)
