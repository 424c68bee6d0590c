"""Open the model of a run for a command, by the engine that its options ask for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from dikkat_runtime.cli import program
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError

ModelKind = Literal["translator", "classifier", "generator", "embedder", "cross_embedder"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Hold what the options of a command say about the engine."""

    engine: EngineName = "auto"
    precision: PrecisionName = "auto"
    device: Device = "cpu"
    threads: int | None = None
    all_words: bool = False

    @property
    def may_be_native(self) -> bool:
        """Tell whether the native engine is what is asked for, or may be."""
        return self.engine != "torch" and self.device == "cpu" and self.precision != "float16"


def open_model(kind: ModelKind, run: Path, choice: EngineOptions) -> Any:
    """Return the object of `dikkat_runtime.tasks` over the model of a run directory.

    Raises `UsageError` for a model of another kind and an engine that cannot run, and `MissingInputError` or
    `DataError` naming the file that is missing or damaged.
    """
    toolkit = torch_opener()
    if toolkit is not None and (choice.threads is None or not choice.may_be_native):
        return toolkit(kind, run, choice)
    if not choice.may_be_native:
        raise UsageError("--engine torch, --device and float16 compute with PyTorch: pip install dikkat")
    return _open_native(kind, run, choice)


def torch_opener() -> Any | None:
    """Return what opens a model by either engine, where dikkat is installed."""
    try:
        is_installed = importlib.util.find_spec("dikkat") is not None
    except ImportError:
        is_installed = False
    return import_module("dikkat.cli.opening").open_model if is_installed else None


def row_opener() -> str:
    """Return the "module:function" by which workers open a model, by either engine where dikkat is installed."""
    return (
        "dikkat_runtime.shards.models:open_model"
        if torch_opener() is None
        else "dikkat.tasks.row_models:open_row_model"
    )


def _open_native(kind: ModelKind, run: Path, choice: EngineOptions) -> Any:
    chosen: dict[str, Any] = {"precision": choice.precision, "threads": choice.threads}
    if kind == "translator":
        from dikkat_runtime.tasks.translator import Translator

        return Translator.load(run, all_words=choice.all_words, **chosen)
    classes = {"classifier": "Classifier", "generator": "Generator", "embedder": "Embedder"}
    name = classes.get(kind, "CrossEmbedder")
    return getattr(import_module(f"dikkat_runtime.tasks.{kind}"), name).load(run, **chosen)


def toolkit_module(name: str, option: str) -> ModuleType:
    """Return the module in which dikkat does what an option asks for. Raises `UsageError` where it is not installed."""
    for toolkit in program.toolkits():
        return import_module(f"{toolkit.__package__}.{name}")
    raise UsageError(f"{option} needs dikkat: pip install dikkat")
