"""Choose the engine that runs the translator of a run directory, without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.changed_settings import note_changed_settings
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.options import Device, Precision
from dikkat_runtime.engine.run_directory import read_weights
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.errors import UsageError


def translator_settings(run: RunDirectory) -> dict[str, Any]:
    """Return the content of config.json of a translator, raw and as `RunConfig`.

    Raises `UsageError` for a model of another kind.
    """
    settings = run.read_config()
    if (task := settings.get("task", "translator")) != "translator":
        raise UsageError(f'{run.path}: holds a "{task}", not a translator')
    return settings


def engine_for(
    run: RunDirectory, settings: Mapping[str, Any], engine: EngineName, precision: Precision, device: Device
) -> str:
    """Why the torch engine is to run instead of the native one, empty where the native one is to.

    Raises `UsageError` where what was asked for cannot be had; no other engine or precision takes its place.
    """
    if precision == "int8" and device != "cpu":
        raise UsageError(f"int8 is for processors; leave it out, or the device {device}")
    if precision == "int8" and engine == "torch":
        raise UsageError("int8 is for the native engine; leave out --precision or --engine torch")
    if engine == "torch":
        return "the torch engine was asked for"
    why = why_not_native(settings, str(run.config)) if device == "cpu" else f"it is for processors, not for {device}"
    if why is None:
        return ""
    if engine == "native":
        raise UsageError(f"the native engine cannot run here: {why}")
    if precision == "int8":
        raise UsageError(f"int8 needs the native engine, which cannot run here: {why}; leave int8 out")
    return why


def native_engine(run: RunDirectory, settings: Mapping[str, Any], precision: Precision) -> NativeEngine:
    """The native engine with the weights of a run. Raises `MissingInputError` or `DataError`."""
    note_changed_settings(run)
    model = model_settings(settings, str(run.config), NATIVE)
    return NativeEngine(model, read_weights(run.weights), str(run.weights), precision=precision)
