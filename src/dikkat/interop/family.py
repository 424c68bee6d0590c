"""Families of models in the folders of Hugging Face: each a key table and a settings table.

A file of `families` holds one or more `Family`; it is found by being there.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.models.key_table import Row
from dikkat_runtime.errors import DataError, nearest
from dikkat_runtime.text.foreign_json import shown


@dataclass(frozen=True, slots=True)
class Derived:
    """Describe a parameter of ours that is computed from several of theirs."""

    names: tuple[str, ...]
    compute: Callable[[ModelConfig, Sequence[Tensor]], Tensor]


Keys = Mapping[str, str | Derived]
"""Our modules or parameters, and the names that make each, of the same kind: "a&b" are stacked, "a+b" are added.

The star in "blocks.*" is the number of the layer on both sides. Behind a name stand its changes, such as
"q_proj|rotary"; see `CHANGES` and `UNBIASED`. "0" is a parameter of zeros.
"""
Settings = Callable[[ForeignSettings, Collection[str]], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Head:
    """Describe what a checkpoint has after the blocks of an encoder, for a task of its own."""

    keys: Mapping[str, str]
    activation: str = ""
    """Of its layer; or their setting that names it; empty where there is none."""
    pooling: str = ""
    """Their setting that names the pooling of a classifier: by the first token, or by the mean."""


def masked_head(dense: str, norm: str, bias: str, activation: str) -> Head:
    """Return the head of a model that fills in hidden tokens, by the names of its layer, its norm and its bias."""
    return Head({"output_transform.dense": dense, "output_transform.norm": norm, "output_bias": bias}, activation)


TAGGER = Head({"output": "classifier"})


@dataclass(frozen=True, slots=True)
class Family:
    """Describe the checkpoints of some values of `model_type`."""

    model_types: tuple[str, ...]
    task: Literal["lm", "encoder", "translator"]
    keys: Callable[[ModelConfig, ForeignSettings], Keys]
    """Returns the table for a model of these settings."""
    settings: Settings
    """Returns those of our model, from theirs and the names of their weights."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of the names in a checkpoint that has a head, of which the first that fits is left out."""
    heads: tuple[str, ...] = ()
    """Beginnings of the names of heads of other tasks, which are left out."""
    constants: tuple[str, ...] = ()
    """Ends of the names of tables that old checkpoints store, and that are computed."""
    layers: str = "num_hidden_layers"
    """Their name of the number of layers."""
    classifier: Head | None = None
    """Of a classifier of whole texts."""
    tagger: Head = TAGGER
    """Of a model that classes every token."""
    masked: Head | None = None
    """Of a model that fills in hidden tokens."""


@cache
def families() -> dict[str, Family]:
    """Return every family by the `model_type` of its checkpoints."""
    package = import_module("dikkat.interop.families")
    modules = [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
    described = [value for module in modules for value in vars(module).values() if isinstance(value, Family)]
    return {model_type: family for family in described for model_type in family.model_types}


def family_of(theirs: ForeignSettings) -> Family:
    """Return the family of a checkpoint. Raises `DataError` for one that is not there, with the nearest name."""
    known, model_type = families(), theirs.values.get("model_type")
    if not isinstance(model_type, str) or model_type not in known:
        close = nearest(model_type, known) if isinstance(model_type, str) else ""
        raise DataError(
            "{path}: model_type {model_type} is not supported{or} known: {known}",
            theirs.path,
            shown(repr(model_type)),
            close or ";",
            ", ".join(sorted(known)),
        )
    return known[model_type]


def settings_of(family: Family, theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    """Return the settings of our model. Raises `DataError` for a list or a number of theirs that is none."""
    try:
        return family.settings(theirs, names)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise DataError("{path}: a setting is not of its kind ({error})", theirs.path, shown(str(error))) from None


def block(ours: str, theirs: str, keys: Keys) -> dict[str, str]:
    """Return the keys of a block within the lists of layers `ours` and `theirs`."""

    def within(part: str) -> str:
        return part if part == "0" else f"{theirs}.*.{part}"

    return {f"{ours}.*.{name}": "&".join(map(within, str(source).split("&"))) for name, source in keys.items()}


_LAYER = re.compile(r"(?<=\.blocks\.)\d+")


def table(keys: Keys, ours: Collection[str], model: ModelConfig) -> list[Row]:
    """Return a row for each of our parameters `ours`."""
    return [_row(name, keys, model) for name in ours]


def _row(ours: str, keys: Keys, model: ModelConfig) -> Row:
    number = _LAYER.search(ours)
    general = _LAYER.sub("*", ours)
    module, _, parameter = general.rpartition(".")
    source = keys.get(general)
    suffix = "" if source is not None else f".{parameter}"
    source = keys[module] if source is None else source
    layer = number.group() if number else "*"
    if isinstance(source, Derived):
        named = tuple(name.replace("*", layer) for name in source.names)
        return Row(ours, named, compute=partial(source.compute, model))
    if source == "0":
        return Row(ours, ())
    parts = []
    for part in re.split(r"[&+]", source):
        name, *changes = part.split("|")
        if UNBIASED in changes:
            if parameter == "bias":
                return Row(ours, ())
            changes.remove(UNBIASED)
        own = (name + suffix).replace("*", layer)
        parts.append((own, [change for change in changes if parameter != "bias" or change in _OF_OUTPUTS]))
    theirs = tuple(name for name, _ in parts)
    if all(changes in ([], ["transposed"]) for _, changes in parts) and "+" not in source:
        return Row(ours, theirs, transposed=bool(parts[0][1]))
    return Row(ours, theirs, compute=partial(_computed, [changes for _, changes in parts], "+" in source, model))


def _computed(changes: Sequence[Sequence[str]], adds: bool, model: ModelConfig, parts: Sequence[Tensor]) -> Tensor:
    changed = []
    for tensor, wanted in zip(parts, changes, strict=True):
        for change in wanted:
            name, _, value = change.partition("=")
            tensor = CHANGES[name](tensor, model, float(value or 0))
        changed.append(tensor)
    return sum(changed[1:], changed[0]) if adds else torch.cat(changed)


def _rotary(tensor: Tensor, model: ModelConfig, _: float) -> Tensor:
    """Reorder the outputs of each head from halves that turn together to pairs."""
    frequencies = model.rotary_frequencies or ()
    width, pairs = 2 * len(frequencies), sum(frequency > 0 for frequency in frequencies)
    order = torch.arange(width)
    order[: 2 * pairs] = order[: 2 * pairs].view(2, pairs).T.flatten()
    # (N * K, ...) -> (N, K, ...)
    return tensor.view(-1, width, *tensor.shape[1:])[:, order].flatten(0, 1)


def _rotary_packed(tensor: Tensor, model: ModelConfig, _: float) -> Tensor:
    """Reorder queries and keys of a packed matrix."""
    width = model.head_dim or model.model_dim // model.num_heads
    groups = (model.num_kv_heads or model.num_heads) * width
    return torch.cat((_rotary(tensor[:-groups], model, 0), tensor[-groups:]))


def _by_head(tensor: Tensor, model: ModelConfig, _: float) -> Tensor:
    """Turn query, key and value of head after head to all queries, all keys, all values."""
    width = len(tensor) // (3 * model.num_heads)
    # (H * 3 * K, ...) -> (H, 3, K, ...) -> (3 * H * K, ...)
    return tensor.view(model.num_heads, 3, width, *tensor.shape[1:]).transpose(0, 1).flatten(0, 2)


CHANGES: dict[str, Callable[[Tensor, ModelConfig, float], Tensor]] = {
    "transposed": lambda tensor, model, value: tensor.T,
    "rotary": _rotary,
    "rotary_packed": _rotary_packed,
    "by_head": _by_head,
    "plus": lambda tensor, model, value: tensor + value,
    "times": lambda tensor, model, value: tensor * value,
    "from": lambda tensor, model, value: tensor[int(value) :],
    "row": lambda tensor, model, value: tensor[int(value)],
    "flat": lambda tensor, model, value: tensor.flatten(),
}
"""What may stand after a name, with its number as in "from=2"."""
UNBIASED = "unbiased"
"""Mark of a layer that has no bias, so that ours is zero."""
_OF_OUTPUTS = ("rotary", "rotary_packed", "by_head", "flat")
