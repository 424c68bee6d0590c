"""Find the factory of torch engines that dikkat registers, which alone knows PyTorch.

It is looked for when the torch engine is to compute, or something of the model itself is asked for, and not before.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from dikkat_runtime.engine.choose import EngineChoice, EngineRequest
from dikkat_runtime.errors import UsageError

GROUP = "dikkat.engines"
"""The group of entry points that engine factories are registered in, each by the name of its engine."""


class EngineFactory(Protocol):
    """A factory makes the engines of PyTorch, and shows the modules that they compute with."""

    def open_engine(self, request: EngineRequest, choice: EngineChoice) -> Any:
        """Return the engine with the weights of a run. Raises as the `load` of its kind."""
        ...

    def open_encoder(self, request: EngineRequest) -> tuple[Any, Any]:
        """Return the engine and the `TextReading` of an imported sentence encoder."""
        ...

    def open_module(self, request: EngineRequest, engine: Any) -> Any:
        """Return the module that a torch `engine` computes with, or a new one with the weights of the run."""
        ...

    def config_of(self, request: EngineRequest) -> Any:
        """Return the settings of a run as the `RunConfig` of dikkat."""
        ...

    def contexts(self, engine: Any) -> Any:
        """Return the `Contexts` of a translator's torch engine."""
        ...

    def attention_maps(self, translator: Any, text: str, translation: str | None) -> list[Any]:
        """Return the attention maps of a translator that reads `text` and writes `translation`."""
        ...


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
