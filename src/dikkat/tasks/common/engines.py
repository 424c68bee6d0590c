"""The choice of engine and precision for the model of a run, without importing PyTorch or pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dikkat.run_directory import RunDirectory
from dikkat.tasks.kinds import KINDS
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device, Precision
from dikkat_runtime.engine.precision import PrecisionName, choose_precision, native_precision
from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import msg


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine and precision that compute a run, decided once."""

    why_not_native: str
    """Why the torch engine is to run instead of the native one; empty where the native one is to."""
    is_asked: bool
    """Whether the user asked for the torch engine."""
    precision: Precision
    why_precision: str
    """Why it is this precision; empty where it was asked for."""

    @property
    def is_native(self) -> bool:
        """True where the native engine computes the run."""
        return not self.why_not_native

    @property
    def shown_reason(self) -> str:
        """The reason why the native engine does not compute, for users who did not ask for another engine."""
        return "" if self.is_asked else self.why_not_native


def require_kind(run: RunDirectory, task: str) -> dict[str, Any]:
    """Read config.json of a run. Raises `UsageError` for a model of another kind than `task`."""
    settings = run.read_config()
    if (kind := settings.get("task", "translator")) != task:
        raise UsageError('{path}: holds a "{kind}", not {name}').fill(run.path, kind, KINDS[task].name)
    return settings


def choose_engine(
    run: RunDirectory, settings: Mapping[str, Any], engine: EngineName, precision: PrecisionName, device: Device
) -> EngineChoice:
    """Choose the engine and precision for the model of a run.

    Raises `UsageError` where what was asked for cannot be had; no other engine or precision takes its place.
    """
    if precision == "float16":
        return _half_choice(settings, engine, device)
    if precision == "int8" and device != "cpu":
        raise UsageError("int8 is for processors; leave it out, or the device {device}").fill(device)
    if precision == "int8" and engine == "torch":
        raise UsageError("int8 is for the native engine; leave out --precision or --engine torch")
    if engine == "torch":
        return EngineChoice(msg("the torch engine was asked for"), True, "float32", "")
    why = (
        why_not_native(settings, str(run.config))
        if device == "cpu"
        else msg("it is for processors, not for {device}").fill(device)
    )
    if why is None:
        if precision == "auto":
            # looks at the file before it is read
            _ = run.precision
        return EngineChoice("", False, *choose_precision(run.path, precision))
    if engine == "native":
        raise UsageError("the native engine cannot run here: {why}").fill(why)
    if precision == "int8":
        raise UsageError("int8 needs the native engine, which cannot run here: {why}; leave int8 out").fill(why)
    return EngineChoice(why, False, "float32", "")


def _half_choice(settings: Mapping[str, Any], engine: EngineName, device: Device) -> EngineChoice:
    """The engine for float16. Raises `UsageError` where there is none."""
    if device == "cpu":
        native_precision("float16")
    if engine != "auto":
        raise UsageError("float16 is for the engine of GPUs; leave out --precision or --engine {engine}").fill(engine)
    if settings.get("task", "translator") != "translator":
        raise UsageError("float16 is for translators; leave out --precision")
    return EngineChoice(msg("it is for processors, not for {device}").fill(device), False, "float16", "")
