"""Choose the engine that runs the translator of a run directory, without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.changed_settings import note_changed_settings
from dikkat.tasks.common.engines import EngineChoice
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.run_directory import read_weights
from dikkat_runtime.engine.settings import NATIVE, model_settings


def native_engine(run: RunDirectory, settings: Mapping[str, Any], choice: EngineChoice) -> NativeEngine:
    """The native engine with the weights of a run. Raises `MissingInputError` or `DataError`."""
    note_changed_settings(run)
    model = model_settings(settings, str(run.config), NATIVE)
    engine = NativeEngine(model, read_weights(run.weights), str(run.weights), precision=choice.precision)
    engine.info = replace(engine.info, why_precision=choice.why_precision)
    return engine
