"""Open the language model of a run directory for writing or reading; PyTorch is loaded only where it computes."""

from __future__ import annotations

from pathlib import Path

from dikkat.tasks.common.engines import choose_engine
from dikkat.tasks.common.settings import settings_of
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.generator import Generator


def open_language_model(
    path: Path, engine: EngineName = "auto", precision: PrecisionName = "float32", device: Device = "cpu"
) -> Generator:
    """The language model of a run, trained or imported, by the engine of that name; "auto" prefers the native one.

    Raises `UsageError` for a model of another kind, an engine that cannot run and a device that is not to be had, and
    `MissingInputError` or `DataError` naming the file that is missing or damaged.
    """
    run, settings, _ = settings_of(path, "lm")
    if choose_engine(run, settings, engine, precision, device).is_native:
        return Generator.load(path, precision=precision)
    from dikkat.tasks.language_model.language_model import LanguageModel

    return LanguageModel.load(path, precision, device, engine)
