"""The cross-attention of a translator as a source of vectors, by either engine."""

from __future__ import annotations

from pathlib import Path

from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.engines import require_kind
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.translation.opening import open_translator
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName, native_precision
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.cross_embedder import Contexts, CrossEmbedder, native_contexts
from dikkat_runtime.tasks.embedder import longest_text


def open_cross_embedder(
    path: Path, precision: PrecisionName = "float32", device: Device = "cpu", engine: EngineName = "auto"
) -> CrossEmbedder:
    """Open the translator of a run directory for the vectors of what it writes.

    Raises `UsageError` for a model of another kind and for one that the native engine, where it is asked for, does not
    compute; else as `open_translator`.
    """
    run = RunDirectory.open(path)
    settings = require_kind(run, "translator")
    # a translation by the native engine, and the vectors by another, would be hard to explain
    if engine != "torch" and device == "cpu" and not Aligner.computes(path):
        if engine == "native" or native_precision(precision) == "int8":
            raise UsageError(
                "{path}: the native engine does not compute this model's cross-attention alone; leave out --engine "
                "native and --precision int8"
            ).fill(path)
        engine, precision = "torch", "float32"
    translator = open_translator(path, engine, precision, device)
    config = run_config(settings, str(run.config))
    longest = longest_text(path, config.model_dump(), config.data.max_length, special=1)
    contexts = native_contexts(path) if translator.info.name == "native" else _torch_contexts(translator.engine)
    return CrossEmbedder(translator, contexts, longest, config.model.model_dim)


def _torch_contexts(engine: object) -> Contexts:
    from dikkat.torch_engine.contexts import TorchContexts
    from dikkat.torch_engine.engine import TorchEngine

    assert isinstance(engine, TorchEngine)  # there are two engines
    return TorchContexts(engine.model)
