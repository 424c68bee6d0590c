"""The folder of a Hugging Face checkpoint: its weights, by the names that a trunk has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from dikkat.errors import DataError, MissingInputError

WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"

_OLD_SPELLINGS = ((".gamma", ".weight"), (".beta", ".bias"))
"""Of the norms, from the time of TensorFlow."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights of a trunk, and what of the file is none of it."""

    path: Path
    weights: dict[str, Tensor]
    left_out: tuple[str, ...]
    """Weights of other tasks' heads."""


def read_checkpoint(folder: Path, prefix: str, heads: Sequence[str], constants: Sequence[str]) -> Checkpoint:
    """The weights without `prefix`; names that start with one of `heads` are set aside.

    Names that end with one of `constants` are passed over: computed, never trained. Raises `MissingInputError`, or
    `DataError` for a damaged file; a pickle is never opened.
    """
    path = folder / WEIGHTS
    if not path.exists():
        hint = f"; {PICKLE} is a pickle, which may run any code: save it anew as safetensors"
        raise MissingInputError(f"{path}: there is no such file{hint if (folder / PICKLE).exists() else ''}")
    try:
        stored = safetensors.torch.load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable safetensors file ({error})") from None
    weights, left_out = {}, []
    for full, tensor in stored.items():
        name = _modern(full.removeprefix(prefix))
        if full.startswith(tuple(heads)):
            left_out.append(full)
        elif not name.endswith(tuple(constants)):
            weights[name] = tensor
    return Checkpoint(path, weights, tuple(sorted(left_out)))


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two weights are one, stored twice."""
    return one.shape == other.shape and torch.equal(one, other)


def _modern(name: str) -> str:
    for old, new in _OLD_SPELLINGS:
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name
