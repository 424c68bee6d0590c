"""Encode named tensors as one safetensors file that detects its own damage.

The checksum stands in the file itself, not next to it: two files cannot be renamed in one step, and a file that is
copied elsewhere keeps its proof. It covers names, types, shapes, values and notes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import open_regular, read_regular, reading_errors, write_errors
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.notices import counted
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.run.weights import MAX_FILE_SIZE, NOTES, read_file_header

if TYPE_CHECKING:
    from torch import Tensor


_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def encode_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the safetensors file of `tensors` (any shapes, any device); a tensor with several names is stored once."""
    import safetensors.torch

    stored, aliases = _store_once(tensors)
    notes: dict[str, Any] = {"aliases": aliases, "metadata": dict(metadata)}
    notes["sha256"] = _digest(stored, notes)
    return safetensors.torch.save(stored, {NOTES: json.dumps(notes, sort_keys=True)})


def decode_tensors(content: bytes, where: Path) -> dict[str, Tensor]:
    """Return the tensors of such a file, on the CPU. Raises `DataError` naming `where` when a single bit differs."""
    import safetensors.torch

    try:
        notes = _read_notes(parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")]))
        stored = safetensors.torch.load(content)
        claimed = notes.pop("sha256")
    except (safetensors.SafetensorError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise _not_ours(where, error) from None
    if claimed != _digest(stored, notes):
        raise DataError("{where}: damaged: its content does not match its checksum; restore the file", where)
    return stored | {alias: stored[name] for alias, name in notes["aliases"].items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file with `decode_tensors`. Raises `MissingInputError` or `DataError`."""
    # its size is compared before a file that some fault made huge is read
    read_header(path)
    with reading_errors(path):
        content = read_regular(path, MAX_FILE_SIZE)
    return decode_tensors(content, path)


@dataclass(frozen=True, slots=True)
class Described:
    """Hold type and shape of a tensor in the header of a file."""

    dtype: str
    """Name in safetensors: F32, BF16, I64, …"""
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, Described]:
    """Return types and shapes of the tensors of a file and of their aliases, without reading a value.

    What it tells is bounded by the size of the file: bytes are there for every entry of every tensor. Raises
    `MissingInputError` or `DataError`.
    """
    try:
        header, size = _header(path)
        aliases = _read_notes(header)["aliases"]
        tensors = {name: _described(value, size) for name, value in header.items() if name != "__metadata__"}
        if sum(math.prod(one.shape) * _WIDTHS[one.dtype] for one in tensors.values()) != size:
            raise ValueError("its tensors are not as long as the file")
        return tensors | {alias: tensors[name] for alias, name in aliases.items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from None


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata that a file was written with. Raises `MissingInputError` or `DataError`."""
    try:
        return {str(key): str(value) for key, value in _read_notes(_header(path)[0])["metadata"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from None


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and how many bytes follow it. Raises `ValueError`, `MissingInputError` or `DataError`."""
    with reading_errors(path), os.fdopen(open_regular(path, MAX_FILE_SIZE), "rb") as file:
        header, begin = read_file_header(file)
        return header, os.fstat(file.fileno()).st_size - begin


def _described(value: dict[str, Any], size: int) -> Described:
    shape, (start, end) = tuple(value["shape"]), value["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise ValueError("a tensor has a size that is not a number")
    width = _WIDTHS[value["dtype"]]
    if not start <= end <= size or math.prod(shape) * width != end - start:
        raise ValueError("a tensor does not have the bytes that it claims")
    return Described(value["dtype"], shape)


def _store_once(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    import torch

    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_name: dict[tuple[object, ...], str] = {}
    for name in counted(sorted(tensors), msg("weights written")):
        tensor = tensors[name].detach()
        storage = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        owner = first_name.setdefault(storage, name) if tensor.numel() else name
        if owner == name:
            # A clone, because safetensors refuses tensors that overlap, such as two slices of a packed projection.
            stored[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        else:
            aliases[name] = owner
    return stored, aliases


def _digest(tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> str:
    import torch

    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read_notes(header: dict[str, Any]) -> dict[str, Any]:
    notes: dict[str, Any] = parse_json(header["__metadata__"][NOTES].encode())
    for alias, name in notes["aliases"].items():
        if alias in header or name not in header or name == "__metadata__":
            raise ValueError(f"{alias[:40]!r} is another name of no tensor in it")
    return notes


def _not_ours(where: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError("{where}: damaged, or not weights written by dikkat ({reason}); restore the file", where, reason)


# Write float32 vectors that come piece by piece as the safetensors file that `tensor_files` reads and would write.

_UNKNOWN = "0" * 64
"""What stands in the header in place of the checksum until all values are written."""


def write_vectors(
    path: Path,
    sizes: Mapping[str, int],
    pieces: Mapping[str, Iterable[Tensor]],
    metadata: Mapping[str, str],
    named: Path | None = None,
) -> None:
    """Write a new file of vectors of `sizes`, each of which its `pieces` are, in the order of their names.

    The library would need all values at once. Raises `DiskError` or `CannotCreateError` about the file, or about
    the one that it is to become, `named`; it is then gone.
    """
    notes: dict[str, Any] = {"aliases": {}, "metadata": dict(metadata)}
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    header = _vector_header(sizes, json.dumps({**notes, "sha256": _UNKNOWN}, sort_keys=True))
    with write_errors(named or path):
        try:
            with path.open("xb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                for name in sorted(sizes):
                    digest.update(json.dumps([name, "torch.float32", [sizes[name]]]).encode())
                    for piece in pieces[name]:
                        values = piece.numpy().data
                        digest.update(values)
                        file.write(values)
                file.seek(8 + header.index(_UNKNOWN.encode()))
                file.write(digest.hexdigest().encode())
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _vector_header(sizes: Mapping[str, int], notes: str) -> bytes:
    """Return the header of a safetensors file, filled up with spaces so that the values begin at a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {NOTES: notes}}
    end = 0
    for name in sorted(sizes):
        start, end = end, end + 4 * sizes[name]
        entries[name] = {"dtype": "F32", "shape": [sizes[name]], "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8)


MAX_VALUE = 127
FINE_STEPS = 254
"""Parts that a step is divided into where a matrix also embeds tokens: the native engine embeds in float32, and in int8
every difference may move a rounding further on."""


class QuantizedMatrix(NamedTuple):
    """Hold a matrix (outputs, inputs) in steps, and the size of a step of each row."""

    steps: Array
    """(outputs, inputs), int8."""
    scale: Array
    """(outputs,), float32."""
    fine: Array
    """(outputs, inputs), int8: what is left of each entry, in parts of a step."""


def quantize_rows(matrix: Array) -> QuantizedMatrix:
    """Quantize each row of `matrix` by its largest magnitude over 127, rounding halves to even.

    The arithmetic is that of `signed_row` in native/c/byte_packing.h, number by number, so both find the same bytes.
    """
    scale = np.abs(matrix).max(axis=1).astype(np.float32) / np.float32(MAX_VALUE)
    share = np.divide(1, scale, out=np.zeros_like(scale), where=scale > np.finfo(np.float32).tiny)
    steps = np.rint(matrix * share[:, None])
    exact = np.divide(matrix, scale[:, None], out=np.zeros(matrix.shape), where=share[:, None] > 0)
    fine = np.rint((exact - steps) * FINE_STEPS).clip(-FINE_STEPS // 2, FINE_STEPS // 2)
    return QuantizedMatrix(steps.astype(np.int8), scale, fine.astype(np.int8))
