"""Choose the engine of a model once, from its settings, from this machine and from what a user asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device, Precision
from dikkat_runtime.engine.precision import PrecisionName, choose_precision, native_precision
from dikkat_runtime.engine.settings import NATIVE, STACK, Allowed, NeedsTorchError, model_settings
from dikkat_runtime.errors import AbsentError, UsageError, msg
from dikkat_runtime.native.library import library
from dikkat_runtime.run.parts import CONFIG

# Find the factory of torch engines that dikkat registers, which alone knows PyTorch.


GROUP = "dikkat.engines"
"""The group of entry points that engine factories are registered in, each by the name of its engine."""


class EngineFactory(Protocol):
    """A factory makes the engines of PyTorch, and shows the modules that they compute with."""

    def open_engine(self, request: EngineRequest, choice: EngineChoice) -> Any:
        """Return the engine with the weights of a run. Raises as the `load` of its kind."""

    def open_module(self, request: EngineRequest, engine: Any) -> Any:
        """Return the module that a torch `engine` computes with, or a new one with the weights of the run."""

    def config_of(self, request: EngineRequest) -> Any:
        """Return the settings of a run as the `RunConfig` of dikkat."""

    def contexts(self, engine: Any) -> Any:
        """Return the `Contexts` of a translator's torch engine."""

    def attention_maps(self, model: Any, text: str, translation: str | None) -> Any:
        """Return the attention maps of a model that reads `text` and, of a translator, writes `translation`."""


def entry_points(**asked: str) -> Any:
    """Return what other distributions offer; the module that finds it takes long to load, and few need it."""
    from importlib.metadata import entry_points as offered

    return offered(**asked)


@cache
def torch_factory() -> EngineFactory:
    """Return the factory of torch engines. Raises `UsageError` where dikkat or its PyTorch is not installed."""
    points = entry_points(group=GROUP, name="torch")
    if not points:
        raise UsageError("the torch engine belongs to dikkat, which is not installed here: pip install dikkat")
    try:
        factory: EngineFactory = next(iter(points)).load()
    except ImportError as error:
        raise UsageError("the torch engine cannot be loaded ({error}): pip install dikkat", error) from None
    return factory


COMPUTED: dict[str, Allowed] = {
    "translator": NATIVE, **dict.fromkeys(("classifier", "lm", "encoder", "tagger", "regressor"), STACK),
}  # fmt: skip
"""The settings that the native engine computes, by the name of a kind of model in config.json."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The run whose model is opened, and what a user asks of its engine."""

    run: Path
    config: Mapping[str, Any]
    """The settings of the run, as `read_config` returns them."""
    precision: PrecisionName = "float32"
    device: Device = "cpu"
    engine: EngineName = "auto"
    threads: int | None = None


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
    def shown_reason(self) -> str:
        """The reason why the native engine does not compute, for users who did not ask for another engine."""
        return "" if self.is_asked else self.why_not_native


def choose_engine(request: EngineRequest) -> EngineChoice:
    """Choose the engine and precision for the model of a run.

    Raises `UsageError` where what was asked for cannot be had; no other engine or precision takes its place.
    """
    engine, precision, device = request.engine, request.precision, request.device
    if precision == "float16":
        return _half_choice(request)
    in_few_bits = precision in ("int8", "int4")
    if in_few_bits and device != "cpu":
        raise UsageError("{precision} is for processors; leave it out, or the device {device}", precision, device)
    if in_few_bits and engine == "torch":
        raise UsageError("{precision} is for the native engine; leave out --precision or --engine torch", precision)
    if precision == "int4" and request.config["task"] == "translator":
        raise UsageError("int4 is for language models, classifiers and encoders; for a translator take int8")
    if engine == "torch":
        return EngineChoice(msg("the torch engine was asked for"), True, "float32", "")
    why: str | None = msg("it is for processors, not for {device}", device)
    if device == "cpu":
        why = why_not_native(request.config, str(request.run / CONFIG))
    if why is None:
        return EngineChoice("", False, *choose_precision(request.run, precision))
    if engine == "native":
        raise UsageError("the native engine cannot run here: {reason}", why)
    if in_few_bits:
        raise UsageError(
            "{precision} needs the native engine, which cannot run here: {reason}; leave {precision} out"
        ).fill(precision, why)
    return EngineChoice(why, False, "float32", "")


def _half_choice(request: EngineRequest) -> EngineChoice:
    """Return the engine for float16. Raises `UsageError` where there is none."""
    if request.device == "cpu":
        native_precision("float16")
    if request.engine != "auto":
        raise UsageError("float16 is for the engine of GPUs; leave out --precision or --engine {name}", request.engine)
    if request.config["task"] != "translator":
        raise UsageError("float16 is for translators; leave out --precision")
    return EngineChoice(msg("it is for processors, not for {device}", request.device), False, "float16", "")


def why_not_native(config: Mapping[str, Any], where: str) -> str | None:
    """Return why the native engine cannot compute the model of a config.json, or None where it can.

    Raises `DataError` for settings that are damaged, and `UsageError` where `DIKKAT_NATIVE_LEVEL` names a level that
    this machine lacks: a user who names a level wants no other engine.
    """
    if os.environ.get("DIKKAT_NATIVE", "1") == "0":
        return "DIKKAT_NATIVE=0"
    task = config.get("task", "translator")
    if task not in COMPUTED:
        return msg("it does not compute models of the kind {task}", task)
    try:
        model_settings(config, where, COMPUTED[task])
    except NeedsTorchError as error:
        return error.reason
    except UsageError as error:
        return str(error)
    try:
        library()
    except AbsentError as error:
        return msg("{reason}; {advice}", error.reason, error.advice)
    return None
