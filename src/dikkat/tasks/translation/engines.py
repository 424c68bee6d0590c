"""Choose the engine that runs the translator of a run directory, without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.engines import EngineChoice
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.engine.shortlist import read_shortlist
from dikkat_runtime.run.metrics import note_changed_settings
from dikkat_runtime.run.weights import read_weights


def native_engine(
    run: RunDirectory, settings: Mapping[str, Any], choice: EngineChoice, *, all_words: bool = False
) -> NativeEngine:
    """The native engine with the weights of a run; with `all_words` its shortlist is left aside.

    Raises `MissingInputError` or `DataError`.
    """
    note_changed_settings(run.path)
    model = model_settings(settings, str(run.config), NATIVE)
    listed = None if all_words else read_shortlist(run.path, settings, model)
    arrays = read_weights(run.weights)
    engine = NativeEngine(model, arrays, str(run.weights), precision=choice.precision, shortlist=listed)
    engine.info = replace(engine.info, why_precision=choice.why_precision)
    return engine
