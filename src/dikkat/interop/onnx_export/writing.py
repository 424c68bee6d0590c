"""Write the model of a run as graphs of ONNX, compared with the run before they take their name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from dikkat.interop.exported_texts import TABLE_ROWS
from dikkat.interop.parity import whole_folder
from dikkat.interop.trained_network import exported_kind
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically

if TYPE_CHECKING:
    from onnx import ModelProto

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
            raise UsageError("{run}: --to onnx writes translators, classifiers and language models").fill(run)
        return write[kind](run, draft, out.resolve().name, count)


def _write_translator(run: Path, draft: Path, name: str, count: int | None) -> str:
    from dikkat.interop.folder_parity import SENTENCES, check_folder
    from dikkat.interop.onnx_export.decoder import decoder_graph
    from dikkat.interop.onnx_export.encoder import encoder_graph
    from dikkat.interop.onnx_export.program import DECODER, ENCODER, OnnxTranslator
    from dikkat.interop.onnx_export.readme import readme
    from dikkat.interop.onnx_export.settings_files import settings_files
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
    from dikkat.interop.onnx_export.classifier import classifier_graph
    from dikkat.interop.onnx_export.text_files import classifier_files
    from dikkat.interop.onnx_export.text_programs import MODEL, OnnxClassifier
    from dikkat.interop.onnx_export.text_readme import classifier_readme
    from dikkat.interop.text_parity import TEXTS, check_classifier
    from dikkat.interop.trained_classifier import TrainedClassifier

    trained = TrainedClassifier.open(run)
    _check_size(run, trained.network)
    graph = classifier_graph(trained.network, trained.temperature, trained.longest)
    _write(draft, {MODEL: graph}, {**classifier_files(trained), "README.md": classifier_readme(trained, name).encode()})
    return str(check_classifier(trained, draft, OnnxClassifier(draft), TEXTS if count is None else count))


def _write_language_model(run: Path, draft: Path, name: str, count: int | None) -> str:
    from dikkat.interop.onnx_export.language_model import language_model_graph
    from dikkat.interop.onnx_export.text_files import language_model_files
    from dikkat.interop.onnx_export.text_programs import MODEL, OnnxWriter
    from dikkat.interop.onnx_export.text_readme import language_model_readme
    from dikkat.interop.text_parity import TEXTS, check_language_model
    from dikkat.interop.trained_language_model import TrainedLanguageModel

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


def _write(draft: Path, graphs: Mapping[str, ModelProto], files: Mapping[str, bytes]) -> None:
    (draft / "onnx").mkdir()
    for name, graph in graphs.items():
        write_atomically(draft / name, graph.SerializeToString())
    for name, content in files.items():
        write_atomically(draft / name, content)
