"""Make arrays that the kernels can read: contiguous, and aligned to the width of the widest vectors."""

import math
from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ALIGNMENT = 64
"""Bytes."""

Array = NDArray[Any]


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
    """Return an array whose content is not set yet."""
    shape = (shape,) if isinstance(shape, int) else shape
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -addressof(c_char.from_buffer(memory)) % ALIGNMENT  # type: ignore[arg-type]
    return np.ndarray(shape, dtype, memory, start)


def side_by_side(value: float, dtype: DTypeLike = np.float32, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """Return arrays filled with one value, by their names, which one piece of memory holds."""
    size, starts = np.dtype(dtype).itemsize, [0]
    for shape in shapes.values():
        starts.append(starts[-1] + -(-math.prod(shape) * size // ALIGNMENT) * ALIGNMENT)
    memory = full(starts[-1] // size, value, dtype)
    return {
        name: np.ndarray(shape, dtype, memory, start)
        for (name, shape), start in zip(shapes.items(), starts, strict=False)
    }


def full(shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float32) -> Array:
    """Return an array filled with one value."""
    filled = empty(shape, dtype)
    filled.fill(value)
    return filled


def aligned(array: Array, dtype: DTypeLike = np.float32) -> Array:
    """Return an aligned, contiguous copy that the kernels can read in place."""
    copy = empty(array.shape, dtype)
    copy[...] = array
    return copy


def addresses(structures: Sequence[Any]) -> Array | None:
    """Return the addresses (N,) of structures of C, or None for no structures."""
    return aligned(np.array([addressof(structure) for structure in structures]), np.int64) if structures else None


def address(array: Array | None) -> int | None:
    """Return the address of the first entry of an array, or None for no array."""
    if array is None:
        return None
    try:
        # three times as fast: a search of one sentence asks for forty addresses
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # nothing in it, read-only, or not contiguous
        location: int = array.__array_interface__["data"][0]
        return location
