"""Arrays that grow on disk, in files without a name, and their sorting: memory does not grow with them.

A small array stays in memory. A file without a name is gone when the process is, however that ends.
"""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.files import write_errors

Records = NDArray[Any]
"""(N,): one entry an element; its type may have named fields."""

KEPT_BYTES = 1 << 20
"""Bytes up to which content stays in memory."""
BLOCK = 1 << 14
"""Entries that are read at a time."""
SORTED_AT_ONCE = 1 << 18
"""Records that are sorted in memory; more are sorted in parts, which are merged."""
MERGED_AT_ONCE = 16
"""Parts that are merged in one go; more are merged to fewer first."""


class DiskFile:
    """Hold bytes that are appended and read back, in memory as long as they are few."""

    def __init__(self, directory: Path | None) -> None:
        """`directory` is where the file would stand; None is the system's place for temporary files."""
        self._directory = directory
        self._file = tempfile.SpooledTemporaryFile(KEPT_BYTES, dir=None if directory is None else str(directory))  # noqa: SIM115
        weakref.finalize(self, _close, self._file)
        self.size = 0

    def append(self, content: bytes) -> None:
        """Write `content` at the end. Raises `DiskError`."""
        with write_errors(self._directory or Path(tempfile.gettempdir())):
            try:
                self._file.seek(self.size)
                self._file.write(content)
                # here, since the error of a full disk would be lost where the file is closed
                self._file.flush()
            except OSError:
                _close(self._file)
                raise
        self.size += len(content)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        self._file.seek(start)
        return self._file.read(max(0, stop - start))


def _close(file: tempfile.SpooledTemporaryFile[bytes]) -> None:
    # what could not be written was reported before
    with suppress(OSError):
        file.close()


class DiskArray:
    """Hold a one-dimensional array that grows by blocks."""

    def __init__(self, dtype: Any, directory: Path | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._file = DiskFile(directory)

    @classmethod
    def of(cls, blocks: Iterable[Records], dtype: Any, directory: Path | None = None) -> "DiskArray":
        """Return the array of all blocks, one after the other. Raises `DiskError`."""
        array = cls(dtype, directory)
        for block in blocks:
            array.append(block)
        return array

    def __len__(self) -> int:
        return self._file.size // int(self.dtype.itemsize)

    def append(self, block: Records) -> None:
        """Put entries at the end. Raises `DiskError`."""
        self._file.append(block.astype(self.dtype, copy=False).tobytes())

    def read(self, start: int, stop: int) -> Records:
        """Return the entries from `start` to before `stop`, or to the end."""
        size = self.dtype.itemsize
        return np.frombuffer(self._file.read(start * size, min(stop, len(self)) * size), self.dtype).copy()

    def blocks(self, size: int = BLOCK) -> Iterator[Records]:
        """Yield all entries, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.read(start, start + size)


def record_blocks(rows: Iterable[Any], dtype: np.dtype[Any]) -> Iterator[Records]:
    """Yield rows as records of a type, `BLOCK` at a time."""
    rest = iter(rows)
    while some := list(islice(rest, BLOCK)):
        yield np.array(some, dtype)


def text_hash(text: str) -> int:
    """Return a hash of 8 bytes."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def sorted_records(
    blocks: Iterable[Records], directory: Path | None = None, most: int | None = None
) -> Iterator[Records]:
    """Yield the records of all blocks in the order of their fields, the first field first.

    At most `most` are in memory, or `SORTED_AT_ONCE`; on disk all of them, twice where they are more than
    `MERGED_AT_ONCE` times as many. Raises `DiskError`.
    """
    most = most or SORTED_AT_ONCE
    runs: DiskArray | None = None
    ranges = list[tuple[int, int]]()
    for part in _in_parts(blocks, most):
        in_order = _sorted(part)
        if runs is None and len(part) < most:
            yield in_order
            return
        runs = DiskArray(part.dtype, directory) if runs is None else runs
        ranges.append((len(runs), len(runs) + len(part)))
        runs.append(in_order)
    if runs is not None:
        # a round of a merge costs time for each of its ranges, and more ranges make more rounds
        while len(ranges) > MERGED_AT_ONCE:
            runs, ranges = _fewer(runs, ranges, most, directory)
        yield from _merged(runs, ranges, most)


def _fewer(
    runs: DiskArray, ranges: Sequence[tuple[int, int]], most: int, directory: Path | None
) -> tuple[DiskArray, list[tuple[int, int]]]:
    """Merge each `MERGED_AT_ONCE` of the sorted ranges to one; what is returned is as the arguments are."""
    merged, longer = DiskArray(runs.dtype, directory), list[tuple[int, int]]()
    for first in range(0, len(ranges), MERGED_AT_ONCE):
        start = len(merged)
        for block in _merged(runs, ranges[first : first + MERGED_AT_ONCE], most):
            merged.append(block)
        longer.append((start, len(merged)))
    return merged, longer


def _in_parts(blocks: Iterable[Records], most: int) -> Iterator[Records]:
    """All records, `most` at a time, and the rest at the end."""
    waiting, count = list[Records](), 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        while count >= most:
            whole = np.concatenate(waiting)
            yield whole[:most]
            waiting, count = [whole[most:]], count - most
    if count:
        yield np.concatenate(waiting)


def _merged(runs: DiskArray, ranges: Sequence[tuple[int, int]], most: int) -> Iterator[Records]:
    """Merge sorted ranges of `runs`, of each of which an equal share of `most` records is in memory."""
    share = max(1, most // len(ranges))
    nexts = [start for start, _ in ranges]
    buffers = [runs.read(0, 0) for _ in ranges]
    while True:
        for number, (_, stop) in enumerate(ranges):
            if not len(buffers[number]) and nexts[number] < stop:
                end = min(nexts[number] + share, stop)
                buffers[number] = runs.read(nexts[number], end)
                nexts[number] = end
        live = [number for number, buffer in enumerate(buffers) if len(buffer)]
        if not live:
            return
        # nothing that is still on disk comes before this record
        last = min((buffers[number][-1] for number in live), key=lambda record: record.item())
        ready = list[Records]()
        for number in live:
            count = _num_up_to(buffers[number], last)
            ready.append(buffers[number][:count])
            buffers[number] = buffers[number][count:]
        yield _sorted(np.concatenate(ready))


def _sorted(records: Records) -> Records:
    return records[np.lexsort([records[name] for name in reversed(records.dtype.names or ())])]


def _num_up_to(records: Records, last: Any) -> int:
    """How many of the sorted records come before `last`, or are it."""
    low, high = 0, len(records)
    for name in records.dtype.names or ():
        column = records[name][low:high]
        low, high = (low + int(np.searchsorted(column, last[name], side)) for side in ("left", "right"))
    return high
