"""The output matrix as the kernels read single words of it, and the words of the sentences of a batch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int8, c_int32
from itertools import accumulate

import numpy as np

from dikkat_runtime.engine.weights import LANES, PANEL, QUAD
from dikkat_runtime.native.arrays import Array, address, aligned, full
from dikkat_runtime.native.structures import Linear, Words
from dikkat_runtime.special_tokens import EOS_ID

WORD_BYTES = 64
"""The weights of a word in eight bits are padded to a multiple of so many bytes."""


class WordRows:
    """Rows of an output matrix, each one word's."""

    def __init__(self, output: Linear, bias: Array | None) -> None:
        """`output` is the matrix with its bias (V,); both must live as long as this."""
        self._words, self._weights = output.outputs, None
        if output.packed_weight:
            self._weights, self._scales, self._shifts = _unpacked(output)
            self._biases = full(self._words, 0.0) if bias is None else bias

    def of(self, listed: Sequence[Array], least: int, is_whole: Sequence[bool]) -> WordsOfBatch:
        """Return the words of a batch from those listed for each sentence, of which search ranks at least `least`.

        Where a list is shorter, the words of the lowest ids are added. A sentence that `is_whole` may write all words.
        """
        every = np.arange(self._words, dtype=np.int32)
        ids = []
        for words, whole in zip(listed, is_whole, strict=True):
            chosen = words if len(words) >= least else np.union1d(words, every[EOS_ID : EOS_ID + least])
            ids.append(every if whole or len(chosen) < least else chosen)
        starts = aligned(np.array([0, *accumulate(map(len, ids))]), np.int64)
        joined = aligned(np.concatenate(ids), np.int32)
        if self._weights is None:
            return WordsOfBatch(Words(address(starts), address(joined)), (starts, joined))
        arrays = aligned(self._scales[joined]), aligned(self._biases[joined]), aligned(self._shifts[joined], np.int32)
        rows = map(address, (starts, joined, self._weights, *arrays))
        return WordsOfBatch(Words(*rows), (starts, joined, self._weights, *arrays))


class WordsOfBatch:
    """The words of the sentences of a batch, which must live as long as C reads them."""

    def __init__(self, job: Words, kept: tuple[Array, ...]) -> None:
        self._job, self._kept = job, kept

    @property
    def address(self) -> int:
        """The address of the structure `Words`."""
        return ctypes.addressof(self._job)


def _unpacked(output: Linear) -> tuple[Array, Array, Array]:
    """Return rows (V, D in whole `WORD_BYTES`) of a matrix of eight-bit panels, and scale and shift of each word."""
    panels, quads = -(-output.outputs // PANEL), -(-output.inputs // LANES) * (LANES // QUAD)
    columns = quads * QUAD
    # the four bytes of a quad stay together
    packed = _array(output.packed_weight, c_int8, panels * PANEL * columns).view(np.int32).reshape(panels, quads, PANEL)
    rows = full((output.outputs, -(-columns // WORD_BYTES) * WORD_BYTES), 0, np.int8)
    by_word = packed.transpose(0, 2, 1).reshape(panels * PANEL, quads)
    rows[:, :columns] = np.ascontiguousarray(by_word[: output.outputs]).view(np.int8)
    scales = _array(output.packed_scale, c_float, output.outputs)
    return rows, scales, _array(output.packed_shift, c_int32, output.outputs)


def _array(start: int, kind: type[c_int8] | type[c_float] | type[c_int32], count: int) -> Array:
    return np.ctypeslib.as_array(ctypes.cast(start, POINTER(kind)), (count,))
