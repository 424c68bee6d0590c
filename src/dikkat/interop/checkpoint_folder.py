"""Read the weights of a Hugging Face checkpoint folder, by the names of a backbone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dikkat_runtime.errors import DataError, MissingInputError, msg
from dikkat_runtime.text.foreign_json import read_json, require_regular, shown

# Read the config.json of a foreign checkpoint strictly, so that no setting that changes the result is ignored.


@dataclass(frozen=True, slots=True)
class ForeignSettings:
    """Hold the settings in the file `path`."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> ForeignSettings:
        """Read the settings from `path`. Raises `MissingInputError` or `DataError` naming the file."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError("{path}: must be one object of settings", path)
        return cls(path, values)

    def number(self, name: str, default: int | float | None = None) -> Any:
        """Return a number that is there, or `default`. Raises `DataError` without either, and for another type."""
        value = self.values.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError("{path}: {name} must be a number, not {value}", self.path, name, shown(repr(value)))
        return value

    def choice(self, name: str, default: str, known: Mapping[str, str]) -> str:
        """Return our name for their choice. Raises `DataError` for one that has none."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise DataError("{path}: {name} must be one of {known}, not {value}").fill(
                self.path, name, ", ".join(known), shown(repr(value))
            )
        return known[value]

    def require(self, name: str, only: object) -> None:
        """Raise `DataError` if the setting is there and not the `only` value that our models compute."""
        if (value := self.values.get(name, only)) != only:
            value_shown = shown(repr(value))
            raise DataError("{where}: {name} = {value} is not supported; only {supported} is").fill(
                self.path, name, value_shown, repr(only)
            )

    def family(self, known: Collection[str]) -> str:
        """Return the model type. Raises `DataError` for one that is not `known`."""
        model_type = self.values.get("model_type")
        if not isinstance(model_type, str) or model_type not in known:
            raise DataError("{path}: model_type must be one of {known}, not {model_type}").fill(
                self.path, ", ".join(known), shown(repr(model_type))
            )
        return model_type


WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"

_OLD_SPELLINGS = ((".gamma", ".weight"), (".beta", ".bias"))
"""Names of norm parameters from the time of TensorFlow."""


_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}  # fmt: skip
_MAX_HEADER_BYTES = 4 * 2**20
"""Largest header: that of some 30,000 weights."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold the weights of a backbone, at first their shapes and types alone, and the names of the other weights."""

    path: Path
    weights: dict[str, Tensor]
    """Weights on the meta device, until `loaded`."""
    left_out: tuple[str, ...]
    """Weights of other tasks' heads."""
    stored: Mapping[str, str]
    """Name of each weight in the file."""

    def loaded(self) -> Checkpoint:
        """Return the checkpoint with the values of its weights. Raises `DataError` for a weight that is not finite."""
        weights = {}
        with safe_open(self.path, framework="pt") as file:
            for name, full in self.stored.items():
                weights[name] = file.get_tensor(full)
                if not torch.isfinite(weights[name]).all():
                    raise DataError(
                        "{path}: the weight {name} holds numbers that are not finite", self.path, shown(full)
                    )
        return replace(self, weights=weights)


def read_checkpoint(folder: Path, prefix: str, heads: Sequence[str], constants: Sequence[str]) -> Checkpoint:
    """Return the weights without `prefix` and without values; names that start with one of `heads` are set aside.

    Names that end with one of `constants` are passed over: computed, never trained. Raises `MissingInputError`, or
    `DataError` for a damaged file; a pickle is never opened.
    """
    path = folder / WEIGHTS
    if not path.exists():
        hint = msg("; {pickle} is a pickle, which may run any code: save it anew as safetensors", PICKLE)
        raise MissingInputError("{path}: there is no such file{or}", path, hint if (folder / PICKLE).exists() else "")
    weights: dict[str, Tensor] = {}
    stored, left_out = {}, []
    for full, tensor in _header(path).items():
        name = _modern(full.removeprefix(prefix))
        if full.startswith(tuple(heads)):
            left_out.append(shown(full))
        elif not name.endswith(tuple(constants)):
            if name in weights:
                raise DataError(
                    "{path}: the weight {name} is stored twice, also as {other}", path, shown(name), shown(full)
                )
            weights[name], stored[name] = tensor, full
    return Checkpoint(path, weights, tuple(sorted(left_out)), stored)


def _header(path: Path) -> dict[str, Tensor]:
    """Every weight of the file by name, as a tensor without numbers."""
    require_regular(path)
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        if size > _MAX_HEADER_BYTES:
            raise DataError("{path}: not a readable safetensors file (a header of {size:,} bytes)", path, size)
        with safe_open(path, framework="pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return {name: _without_numbers(path, name, tensor_slice) for name, tensor_slice in slices.items()}
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError("{path}: not a readable safetensors file ({error})", path, shown(str(error))) from None


def _without_numbers(path: Path, name: str, tensor_slice: Any) -> Tensor:
    kind = tensor_slice.get_dtype()
    if kind not in _TYPES:
        raise DataError(
            "{path}: the weight {name} is of the type {kind}, which is not read", path, shown(name), shown(str(kind))
        )
    return torch.empty(tensor_slice.get_shape(), dtype=_TYPES[kind], device="meta")


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two weights are one, stored twice; without their values, whether they could be."""
    return one.shape == other.shape and (one.is_meta or torch.equal(one, other))


def _modern(name: str) -> str:
    for old, new in _OLD_SPELLINGS:
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name
