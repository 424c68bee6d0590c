"""Read ranges of an array on disk so that memory holds what is asked for and nothing around it."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import DataError

IntArray = NDArray[np.int64]

READ_FROM = 1 << 25
"""Bytes of a file of which ranges are read; a smaller one may stay in memory, mapped."""
_NEAR = 1 << 10
"""Entries from one range to the next, in the mean, up to which reading all between is faster than reading each."""
_READ_AT_ONCE = 1 << 20
"""Entries that are read at a time where ranges are near."""


class ArrayRanges:
    """Give ranges of a one-dimensional array that is in memory or mapped from a file.

    Of a large file they are read, not looked up in its map: that would keep 64 KiB around each in the memory of the
    process, up to the whole file.
    """

    def __init__(self, array: NDArray[Any], read_from: int = READ_FROM) -> None:
        """`read_from` is the number of bytes from which a mapped file is read."""
        self._array = np.asarray(array)
        self._file: int | None = None
        if isinstance(array, np.memmap) and array.nbytes >= read_from and hasattr(os, "preadv"):
            self._path, self._begin = Path(str(array.filename)), int(array.offset)
            self._file = os.open(self._path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return len(self._array)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the entries from `start` to before `stop`, or to the end. Raises `DataError`."""
        stop = max(start, min(stop, len(self)))
        if self._file is None:
            return self._array[start:stop]
        entries = np.empty(stop - start, self._array.dtype)
        self._fill(self._file, entries, start)
        return entries

    def gather(self, starts: IntArray, lengths: IntArray) -> NDArray[Any]:
        """Return ranges one after the other, (sum of lengths,). Raises `DataError`."""
        ends = np.cumsum(lengths)
        if self._file is None:
            positions = np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)
            entries: NDArray[Any] = self._array[positions]
            return entries
        if self._are_near(starts):
            first, last = int(starts[0]), int((starts + lengths).max())
            if last - first <= _READ_AT_ONCE:
                return ArrayRanges(self.read(first, last)).gather(starts - first, lengths)
            middle = len(starts) // 2
            parts = (slice(None, middle), slice(middle, None))
            return np.concatenate([self.gather(starts[part], lengths[part]) for part in parts])
        entries = np.empty(int(lengths.sum()), self._array.dtype)
        begin = 0
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            self._fill(self._file, entries[begin:end], start)
            begin = end
        return entries

    def _are_near(self, starts: IntArray) -> bool:
        """Whether there are several ranges that come one after the other in the file with little between them."""
        if len(starts) < 2 or starts[-1] - starts[0] > _NEAR * len(starts):
            return False
        return bool((starts[1:] >= starts[:-1]).all())

    def _fill(self, file: int, entries: NDArray[Any], start: int) -> None:
        size = self._array.dtype.itemsize
        content = entries.view(np.uint8).data
        offset = self._begin + start * size
        while len(content):
            count = os.preadv(file, [content], offset)
            if count <= 0:
                raise DataError("{path}: has become shorter while it was read; prepare the data again").fill(self._path)
            content, offset = content[count:], offset + count
