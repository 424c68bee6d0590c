"""Named tensors as the bytes of one safetensors file that notices its own damage.

The checksum stands in the file itself, not beside it: two files cannot be renamed in one step, and a file that is
copied elsewhere keeps its proof. It covers names, types, shapes, values and notes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from dikkat.errors import DataError, MissingInputError

# One metadata key: safetensors writes several in random order, and equal weights should give equal files.
_NOTES = "dikkat"


def encode_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The safetensors file of `tensors` (any shapes, any device); a tensor with several names is stored once."""
    stored, aliases = _store_once(tensors)
    notes: dict[str, Any] = {"aliases": aliases, "metadata": dict(metadata)}
    notes["sha256"] = _digest(stored, notes)
    return safetensors.torch.save(stored, {_NOTES: json.dumps(notes, sort_keys=True)})


def decode_tensors(content: bytes, where: Path) -> dict[str, Tensor]:
    """The tensors of such a file, on the CPU. Raises `DataError` naming `where` when a single bit differs."""
    try:
        notes = _read_notes(content)
        stored = safetensors.torch.load(content)
        claimed = notes.pop("sha256")
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{where}: damaged, or not weights written by dikkat ({error}); restore the file") from None
    if claimed != _digest(stored, notes):
        raise DataError(f"{where}: damaged: its content does not match its checksum; restore the file")
    return stored | {alias: stored[name] for alias, name in notes["aliases"].items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """`decode_tensors` of a file. Raises `MissingInputError` or `DataError`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
    return decode_tensors(content, path)


def _store_once(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_name: dict[tuple[object, ...], str] = {}
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        owner = first_name.setdefault(place, name) if tensor.numel() else name
        if owner == name:
            # A clone, because safetensors refuses tensors that overlap, such as two slices of a packed projection.
            stored[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        else:
            aliases[name] = owner
    return stored, aliases


def _digest(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read_notes(content: bytes) -> dict[str, Any]:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    notes: dict[str, Any] = json.loads(header["__metadata__"][_NOTES])
    return notes
