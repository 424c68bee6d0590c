"""The translator of a run directory for whoever only translates, without PyTorch and pydantic where it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dikkat.kernels.processor import keep_freed_memory
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.engines import choose_engine, require_kind
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.tasks.translator import Translator


def open_translator(
    path: Path,
    engine: EngineName = "auto",
    precision: PrecisionName = "float32",
    device: Device = "cpu",
    *,
    all_words: bool = False,
) -> Translator:
    """The translator of a run directory by the engine of that name; with "auto", by the native one where it can run.

    With `all_words` a shortlist of words is left aside, as the torch engine always leaves it.
    Raises `UsageError` for a model of another kind, an engine that cannot run and a device that is not to be had, and
    `MissingInputError` or `DataError` naming the file that is missing or damaged.
    """
    run = RunDirectory.open(path)
    # a batch frees what the next one asks for again
    keep_freed_memory()
    settings = require_kind(run, "translator")
    try:
        if choose_engine(run, settings, engine, precision, device).is_native:
            return Translator.load(path, precision=precision, all_words=all_words)
    except DikkatError:
        _require_sound(settings, run)
        raise
    from dikkat.tasks.translation.translator import Translator as WithModel

    return WithModel.load(path, precision, device, engine)


def _require_sound(settings: dict[str, Any], run: RunDirectory) -> None:
    """Raise what is wrong with the settings, in the words of those who know all of them."""
    from dikkat.tasks.common.settings import run_config

    run_config(settings, str(run.config))
