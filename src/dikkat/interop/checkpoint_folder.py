"""Read the weights of a Hugging Face checkpoint folder, by the names of a backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.messages import msg
from dikkat_runtime.text.foreign_json import require_regular, shown

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
                    raise DataError("{path}: the weight {full} holds numbers that are not finite").fill(
                        self.path, shown(full)
                    )
        return replace(self, weights=weights)


def read_checkpoint(folder: Path, prefix: str, heads: Sequence[str], constants: Sequence[str]) -> Checkpoint:
    """Return the weights without `prefix` and without values; names that start with one of `heads` are set aside.

    Names that end with one of `constants` are passed over: computed, never trained. Raises `MissingInputError`, or
    `DataError` for a damaged file; a pickle is never opened.
    """
    path = folder / WEIGHTS
    if not path.exists():
        hint = msg("; {pickle} is a pickle, which may run any code: save it anew as safetensors").fill(PICKLE)
        raise MissingInputError("{path}: there is no such file{offer}").fill(
            path, hint if (folder / PICKLE).exists() else ""
        )
    weights: dict[str, Tensor] = {}
    stored, left_out = {}, []
    for full, tensor in _header(path).items():
        name = _modern(full.removeprefix(prefix))
        if full.startswith(tuple(heads)):
            left_out.append(shown(full))
        elif not name.endswith(tuple(constants)):
            if name in weights:
                raise DataError("{path}: the weight {name} is there twice, as {full} too").fill(
                    path, shown(name), shown(full)
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
            raise DataError("{path}: not a readable safetensors file (a header of {size:,} bytes)").fill(path, size)
        with safe_open(path, framework="pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return {name: _without_numbers(path, name, tensor_slice) for name, tensor_slice in slices.items()}
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError("{path}: not a readable safetensors file ({error})").fill(path, shown(str(error))) from None


def _without_numbers(path: Path, name: str, tensor_slice: Any) -> Tensor:
    kind = tensor_slice.get_dtype()
    if kind not in _TYPES:
        raise DataError("{path}: the weight {name} is of the type {kind}, which is not read").fill(
            path, shown(name), shown(str(kind))
        )
    return torch.empty(tensor_slice.get_shape(), dtype=_TYPES[kind], device="meta")


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two weights are one, stored twice; without their values, whether they could be."""
    return one.shape == other.shape and (one.is_meta or torch.equal(one, other))


def _modern(name: str) -> str:
    for old, new in _OLD_SPELLINGS:
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name
