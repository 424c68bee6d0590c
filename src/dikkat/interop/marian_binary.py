"""Read the `.bin` file of a Marian model, in float32 or in the eight bits of Firefox's translators (intgemm).

Numbers of 8 bytes: the version, 1, and how many tensors; for each the length of its name, its type, the number of its
sizes and its bytes. Then all names, ended by a zero, all sizes in 4 bytes, the length of a gap, the gap, and all data.
A tensor of eight bits has its multiplier m behind it, a float32: its weights are q / m.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_regular, shown

_LARGEST = 1 << 34
_VERSION = 1
_MOST_TENSORS = 1 << 14
_FLOAT32, _INTGEMM8, _TEXT = 0x404, 0x4101, 0x101
_OPTIONS = "special:model.yml"
_EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")
"""Matrices of eight bits that are stored as they are; the others have outputs before inputs."""


def read_binary(path: Path) -> tuple[dict[str, Tensor], bytes]:
    """Return the weights in float32 by their names, and the options of the model.

    Raises `MissingInputError`, or `DataError` for a damaged file or a type that is not read.
    """
    content = memoryview(read_regular(path, _LARGEST))
    try:
        return _parsed(content)
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable Marian model ({shown(str(error))})") from None


def _parsed(content: memoryview) -> tuple[dict[str, Tensor], bytes]:
    version, count = struct.unpack_from("<QQ", content, 0)
    if version != _VERSION or not 0 < count <= _MOST_TENSORS:
        raise ValueError(f"version {version} with {count:,} tensors, where version {_VERSION} is read")
    headers = [struct.unpack_from("<QQQQ", content, 16 + 32 * number) for number in range(count)]
    at = 16 + 32 * count
    names, shapes = [], []
    for length, _, _, _ in headers:
        names.append(bytes(_part(content, at, length)).rstrip(b"\0").decode("utf-8"))
        at += length
    for _, _, sizes, _ in headers:
        shapes.append(struct.unpack(f"<{sizes}i", _part(content, at, 4 * sizes)))
        at += 4 * sizes
    (gap,) = struct.unpack("<Q", _part(content, at, 8))
    at += 8 + gap
    weights: dict[str, Tensor] = {}
    options = None
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        data = _part(content, at, size)
        at += size
        if name == _OPTIONS:
            options = bytes(data)
        elif name in weights or min(shape, default=0) <= 0:
            raise ValueError(f"the tensor {name} is there twice, or without sizes")
        else:
            weights[name] = torch.from_numpy(_numbers(name, kind, shape, data))
    if options is None or at != len(content):
        raise ValueError(f"it has no {_OPTIONS}, or {len(content) - at:,} bytes behind its end")
    return weights, options


def _numbers(name: str, kind: int, shape: tuple[int, ...], data: memoryview) -> NDArray[np.float32]:
    count = math.prod(shape)
    if kind == _FLOAT32 and len(data) >= 4 * count:
        return np.frombuffer(data[: 4 * count], "<f4").reshape(shape).astype(np.float32)
    if kind == _INTGEMM8 and len(data) >= count + 4:
        (multiplier,) = struct.unpack_from("<f", data, count)
        if not (math.isfinite(multiplier) and multiplier > 0):
            raise ValueError(f"the multiplier of {name} is {multiplier}")
        transposed = len(shape) == 2 and name not in _EMBEDDINGS
        rounded = np.frombuffer(data[:count], np.int8).reshape(shape[::-1] if transposed else shape)
        numbers = rounded.astype(np.float32) / np.float32(multiplier)
        return np.ascontiguousarray(numbers.T if transposed else numbers)
    raise ValueError(f"the tensor {name} is of the type {kind:#x} with {len(data):,} bytes, which is not read")


def _part(content: memoryview, at: int, size: int) -> memoryview:
    if not 0 <= at <= at + size <= len(content):
        raise ValueError("it is cut short")
    return content[at : at + size]
