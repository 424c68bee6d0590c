"""The translator of a run directory for whoever only translates: PyTorch is loaded where it is to compute, else not."""

from __future__ import annotations

from pathlib import Path

from dikkat.config import Device
from dikkat.data.line_profile import reading_limits
from dikkat.native.processor import keep_freed_memory
from dikkat.tasks.common.engines import choose_engine, settings_of
from dikkat.tasks.translation.engines import native_engine
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer


def open_translator(
    path: Path, engine: EngineName = "auto", precision: PrecisionName = "float32", device: Device = "cpu"
) -> Translator:
    """The translator of a run directory by the engine of that name; with "auto", by the native one where it can run.

    Raises `UsageError` for a model of another kind, an engine that cannot run and a device that is not to be had, and
    `MissingInputError` or `DataError` naming the file that is missing or damaged.
    """
    run, settings, config = settings_of(path, "translator")
    # a batch frees what the next one asks for again
    keep_freed_memory()
    choice = choose_engine(run, settings, engine, precision, device)
    if choice.is_native:
        native = native_engine(run, settings, choice)
        tokenizer = Tokenizer.load(run.tokenizer, config.model.vocab_size)
        limits = reading_limits(run.path, settings, tokenizer)
        return Translator(native, tokenizer, limits, language=config.data.source_language)
    from dikkat.tasks.translation.translator import Translator as WithModel

    return WithModel.load(path, precision, device, engine)
