"""Open the model of a run for a command, by the engine that its options ask for."""

from __future__ import annotations

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


def open_model(kind: ModelKind, run: Path, choice: EngineOptions) -> Any:
    """Return the object of `dikkat_runtime.tasks` over the model of a run directory. Raises as its `load`."""
    classes = {"translator": "Translator", "classifier": "Classifier", "generator": "Generator", "embedder": "Embedder"}
    own = getattr(import_module(f"dikkat_runtime.tasks.{kind}"), classes.get(kind, "CrossEmbedder"))
    others = {"all_words": choice.all_words} if kind == "translator" else {}
    return own.load(run, choice.precision, choice.device, choice.engine, threads=choice.threads, **others)


def toolkit_module(name: str, option: str) -> ModuleType:
    """Return the module in which dikkat does what an option asks for. Raises `UsageError` where it is not installed."""
    for toolkit in program.toolkits():
        return import_module(f"{toolkit.__package__}.{name}")
    raise UsageError("{option} needs dikkat: pip install dikkat", option)
