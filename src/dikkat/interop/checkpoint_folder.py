"""Read the weights of a Hugging Face checkpoint folder, by the names of a backbone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dikkat_runtime.errors import DataError, MissingInputError, msg
from dikkat_runtime.notices import counted
from dikkat_runtime.run.weights import require_memory
from dikkat_runtime.text.foreign_json import read_json, require_regular, shown

# Read the config.json of a foreign checkpoint strictly, so that no setting that changes the result is ignored.


@dataclass(frozen=True, slots=True)
class ForeignSettings:
    """Hold the settings in the file `path`."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "ForeignSettings":
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

    def choice(self, name: str, default: str, *tables: Mapping[str, str]) -> str:
        """Return our name for their choice, by one table after the other. Raises `DataError` for one that has none."""
        value = choice = default if self.values.get(name) is None else self.values[name]
        for known in tables:
            if not isinstance(choice, str) or choice not in known:
                names = ", ".join(tables[0])
                raise DataError(
                    "{path}: {name} must be one of {known}, not {value}", self.path, name, names, shown(repr(value))
                )
            choice = known[choice]
        return str(choice)

    def require(self, name: str, only: object) -> None:
        """Raise `DataError` if the setting is there and not the `only` value that our models compute."""
        if (value := self.values.get(name, only)) != only:
            raise DataError("{where}: {name} = {value} is not supported; only {supported} is").fill(
                self.path, name, shown(repr(value)), repr(only)
            )


WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLES = "pytorch_model*.bin"

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
    """Hold the weights of a model, at first their shapes and types alone, and the names of those left out."""

    path: Path
    weights: dict[str, Tensor]
    """Weights on the meta device, until `loaded`."""
    left_out: tuple[str, ...]
    """Weights of other tasks' heads."""
    stored: dict[str, tuple[Path, str]]
    """File of each weight, and its name there."""

    def loaded(self) -> "Checkpoint":
        """Return the checkpoint with values. Raises `DataError` for one that is not finite, or `OutOfMemoryError`."""
        weights, files = {}, self._opened()
        require_memory(self.path, "float32", sum(tensor.numel() for tensor in self.weights.values()))
        for name, (path, full) in counted(list(self.stored.items()), msg("weights read")):
            weights[name] = files[path].get_tensor(full)
            require_finite(weights[name], path, full)
        return replace(self, weights=weights)

    def _opened(self) -> dict[Path, Any]:
        return {path: safe_open(path, framework="pt") for path in {path for path, _ in self.stored.values()}}


def read_checkpoint(
    folder: Path, prefixes: Sequence[str], heads: Sequence[str], constants: Sequence[str]
) -> Checkpoint:
    """Return the weights without the first of `prefixes` that fits and without values.

    Names that start with one of `heads` are set aside, and those that end with one of `constants` passed over:
    computed, never trained. Raises `MissingInputError`, or `DataError` for a damaged file; a pickle is never opened.
    """
    path = folder / WEIGHTS
    weights: dict[str, Tensor] = {}
    stored, left_out = {}, []
    for file in _files(folder):
        for full, tensor in _header(file).items():
            prefix = next((prefix for prefix in prefixes if full.startswith(prefix)), "")
            name = _modern(full.removeprefix(prefix))
            if full.startswith(tuple(heads)):
                left_out.append(shown(full))
            elif not name.endswith(tuple(constants)):
                if name in weights:
                    raise DataError(
                        "{path}: the weight {name} is stored twice, also as {other}", file, shown(name), shown(full)
                    )
                weights[name], stored[name] = tensor, (file, full)
    return Checkpoint(path, weights, tuple(sorted(left_out)), stored)


def _files(folder: Path) -> list[Path]:
    """Return the files of the weights: one, or those that an index names. Raises `MissingInputError` or `DataError`."""
    path, index = folder / WEIGHTS, folder / INDEX
    if path.exists():
        return [path]
    if not index.exists():
        if pickles := sorted(folder.glob(_PICKLES)):
            raise MissingInputError(
                "{path}: there is no such file; {name} is a pickle, which may run any code: convert it in"
                " Python with: import glob, torch, safetensors.torch as st; st.save_file({{name: tensor.clone() for"
                ' file in glob.glob("{pattern}") for name, tensor in torch.load(file, weights_only=True).items()}},'
                ' "model.safetensors")'
            ).fill(path, pickles[0].name, _PICKLES)
        raise MissingInputError("{path}: there is no such file", path)
    named = read_json(index, "an index of weights")
    parts = named.get("weight_map") if isinstance(named, dict) else None
    if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
        raise DataError("{index}: must have a weight_map of names and files", index)
    files = sorted(set(parts.values()))
    if outside := [name for name in files if Path(name).name != name]:
        raise DataError("{index}: the file {file} is outside the folder", index, shown(outside[0]))
    if missing := [name for name in files if not (folder / name).exists()]:
        raise MissingInputError(
            "{path}: there is no such file, but {index} names it: {count} of {files} are missing; download them again"
        ).fill(folder / missing[0], index.name, len(missing), len(files))
    return [folder / name for name in files]


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


def require_finite(tensor: Tensor, path: Path, name: str) -> None:
    """Raise `DataError` for a weight of a file that holds an infinite number or none."""
    if not torch.isfinite(tensor).all():
        raise DataError("{path}: the weight {name} holds numbers that are not finite", path, shown(name))


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two weights are one, stored twice; without their values, whether they could be."""
    return one.shape == other.shape and (one.is_meta or torch.equal(one, other))


def _modern(name: str) -> str:
    for old, new in _OLD_SPELLINGS:
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name
