"""Build the network of a run with its weights, for exports, and find texts to try them with."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from dikkat.config import RunConfig, build_config
from dikkat.data.lessons import installed_phrasebook
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.weights import read_weights

Network = TypeVar("Network", bound=nn.Module)
Fitting = Callable[[list[str]], list[str]]
"""Those of some texts that a model reads."""


def config_of(settings: Mapping[str, Any], run: Path) -> RunConfig:
    """Return the configuration in a config.json. Raises `UsageError` for settings that fit no model."""
    config = build_config(
        {name: settings[name] for name in RunConfig.model_fields if name in settings}, where=str(run / "config.json")
    )
    if config.model.beyond_common or config.classifier.transform is not None:
        name = config.model.beyond_common or "classifier.transform"
        raise UsageError("{run}: {name} is a setting of imported models, which this format does not support", run, name)
    return config


def exported_kind(run: Path) -> str:
    """Return the kind of model that a run holds, as config.json names it; empty for one that the runtime lacks."""
    try:
        return str(read_config(run)["task"])
    except UsageError:
        return ""


def trained_network(run: Path, build: Callable[[], Network]) -> Network:
    """Return the network that `build` makes with the weights of a run, in evaluation mode.

    Raises `MissingInputError`, or `DataError` naming the first weight that does not fit.
    """
    path = run / "model.safetensors"
    arrays = read_weights(path)
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in build().named_parameters()}
    for name, shape in shapes.items():
        if name not in arrays or tuple(arrays[name].shape) != tuple(shape):
            raise DataError("{path}: does not fit config.json at {name}; restore the file", path, name)
    whole = build()
    whole.load_state_dict({name: torch.from_numpy(arrays[name].copy()) for name in shapes}, strict=False)
    return whole.eval()


def sample_texts(run: Path, count: int, longest: int, fitting: Fitting) -> list[str]:
    """Return `count` texts to try an export with: those held out by the run, else sentences of the phrasebook.

    Fewer than `count` held-out texts are made up for by the phrasebook's. Those of more than `longest` characters, and
    those that are not `fitting`, are left out, so that there may be fewer in all.
    """
    try:
        lines = (run / "held_out" / "test.source.txt").read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        lines = []
    usual = fitting(list(dict.fromkeys(line.strip() for line in lines if 0 < len(line.strip()) <= longest)))
    spread = usual[:: max(1, len(usual) // count)][:count]
    invented = fitting([phrase.source for phrase in installed_phrasebook().phrasebook("en-fr", count)])
    return [*spread, *invented[: count - len(spread)]]
