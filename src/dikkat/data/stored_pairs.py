"""Clean pairs in a file without a name: as many as the disk holds, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import CleaningReport
from dikkat.data.disk_arrays import DiskArray, DiskFile, Records, record_blocks, sorted_records, text_hash
from dikkat.data.pairs import Pair

ValueT = TypeVar("ValueT")

_ROW = np.dtype([("start", "<i8"), ("size", "<i8")])
_WRITTEN_AT_ONCE = 1 << 20
_READ_AT_ONCE = 1 << 12
"""Pairs that are read at a time."""
_MAX_BYTES = 1 << 24
"""Bytes that are read at a time; pairs that lie farther apart are read one by one."""


class StoredPairs(Sequence[Pair]):
    """Hold pairs in their order, or some of them; no text may contain a line feed.

    Of a pair its texts and its line are kept, not its link.
    """

    def __init__(
        self, texts: DiskFile, rows: DiskArray, line_types: Sequence[type[int]], directory: Path | None
    ) -> None:
        self._texts, self._rows, self._line_types = texts, rows, line_types
        self.directory = directory
        """Folder of the file without a name; None for the system's place for temporary files."""

    @classmethod
    def store(cls, pairs: Iterable[Pair], directory: Path | None = None) -> StoredPairs:
        """Write pairs to a file in `directory` that has no name there. Raises `DiskError` and what `pairs` raises."""
        texts, rows = DiskFile(directory), DiskArray(_ROW, directory)
        buffer, ends = bytearray(), list[int]()
        # of a line its number is written and where its type is in here, which knows the name of its file
        line_types = dict[type[int], int]()
        for pair in pairs:
            line_type = line_types.setdefault(type(pair.line), len(line_types))
            buffer += f"{pair.source}\n{pair.target}\n{int(pair.line)}\n{line_type}".encode()
            ends.append(len(buffer))
            if len(buffer) >= _WRITTEN_AT_ONCE:
                _append(texts, rows, buffer, ends)
                buffer, ends = bytearray(), []
        _append(texts, rows, buffer, ends)
        return cls(texts, rows, tuple(line_types), directory)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        return self._pairs(self._rows.read(number, number + 1))[0]

    def __iter__(self) -> Iterator[Pair]:
        for rows in self._rows.blocks(_READ_AT_ONCE):
            yield from self._pairs(rows)

    def without(self, dropped: Iterable[NDArray[np.int64]]) -> StoredPairs:
        """Return the pairs but those of the indices `dropped`, which ascend over all its blocks. Raises `DiskError`."""
        return self._selected(self._rest(iter(dropped)))

    def sample(self, most: int, seed: int) -> StoredPairs:
        """Return about `most` of the pairs, drawn by `seed`; all of them where they are no more. Raises `DiskError`."""
        if len(self) <= most:
            return self
        bits = np.random.PCG64(np.random.SeedSequence([seed % 2**64, len(self)]))
        limit = np.uint64(2**64 * most // len(self))
        # raw bits of the generator: numpy keeps these the same for ever
        return self._selected(rows[bits.random_raw(len(rows)) < limit] for rows in self._rows.blocks())

    def _selected(self, blocks: Iterator[Records]) -> StoredPairs:
        rows = DiskArray.of(blocks, _ROW, self.directory)
        return StoredPairs(self._texts, rows, self._line_types, self.directory)

    def _rest(self, dropped: Iterator[NDArray[np.int64]]) -> Iterator[Records]:
        start, waiting = 0, np.empty(0, np.int64)
        for rows in self._rows.blocks():
            end = start + len(rows)
            while (not len(waiting) or waiting[-1] < end) and (block := next(dropped, None)) is not None:
                waiting = np.concatenate([waiting, block])
            here = int(np.searchsorted(waiting, end))
            yield np.delete(rows, waiting[:here] - start)
            start, waiting = end, waiting[here:]

    def _pairs(self, rows: Records) -> list[Pair]:
        begin, end = int(rows["start"][0]), int(rows["start"][-1] + rows["size"][-1])
        if end - begin > _MAX_BYTES and len(rows) > 1:
            middle = len(rows) // 2
            return self._pairs(rows[:middle]) + self._pairs(rows[middle:])
        content = self._texts.read(begin, end)
        starts, sizes = (rows["start"] - begin).tolist(), rows["size"].tolist()
        records = (content[start : start + size].decode() for start, size in zip(starts, sizes, strict=True))
        return [
            Pair(source, target, self._line_types[int(line_type)](line))
            for source, target, line, line_type in (record.split("\n") for record in records)
        ]


class MappedPairs(Sequence[ValueT]):
    """Hold what a function returns of each pair, computed when it is asked for."""

    def __init__(self, pairs: Sequence[Pair], function: Callable[[Pair], ValueT]) -> None:
        self._pairs, self._function = pairs, function

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> ValueT: ...
    @overload
    def __getitem__(self, index: slice) -> list[ValueT]: ...
    def __getitem__(self, index: int | slice) -> ValueT | list[ValueT]:
        pairs = self._pairs[index]
        return self._function(pairs) if isinstance(pairs, Pair) else list(map(self._function, pairs))

    def __iter__(self) -> Iterator[ValueT]:
        return map(self._function, self._pairs)


def side_texts(pairs: Sequence[Pair], side: Literal["source", "target"]) -> Sequence[str]:
    """Return the texts of one side of pairs, each read when it is asked for."""
    return MappedPairs(pairs, attrgetter(side))


def _append(texts: DiskFile, rows: DiskArray, buffer: bytearray, ends: list[int]) -> None:
    block = np.empty(len(ends), _ROW)
    starts = np.array([0, *ends], np.int64)
    block["start"], block["size"] = texts.size + starts[:-1], np.diff(starts)
    texts.append(bytes(buffer))
    rows.append(block)


# Leave out pairs that came before, in memory that does not grow with their number.

_HASH = np.dtype([("hash", "<u8"), ("index", "<i8")])
_INDEX = np.dtype([("index", "<i8")])


def without_duplicates(
    pairs: StoredPairs, report: CleaningReport, shown: Callable[[Pair], Pair] = lambda pair: pair
) -> StoredPairs:
    """Return the first of all equal pairs, in their order; the others are counted in `report`, with an example.

    `shown` gives the example as a user is to see it.

    Pairs are compared by a hash of 8 bytes, which any two of 10 million share with a probability of 3e-6. Raises
    `DiskError`.
    """
    # "\n" cannot stand in a text that passed the rules, so it separates the sides without doubt
    hashes = ((text_hash(f"{pair.source}\n{pair.target}"), index) for index, pair in enumerate(pairs))
    repeats = sorted_records(_repeated(sorted_records(record_blocks(hashes, _HASH), pairs.directory)), pairs.directory)
    dropped = DiskArray.of((block["index"] for block in repeats), np.int64, pairs.directory)
    if not len(dropped):
        return pairs
    report.note("duplicate", shown(pairs[int(dropped.read(0, 1)[0])]), len(dropped))
    report.kept -= len(dropped)
    return pairs.without(dropped.blocks())


def _repeated(blocks: Iterable[Records]) -> Iterator[NDArray[np.void]]:
    """Of sorted hashes all but the first of those that are equal."""
    last: np.uint64 | None = None
    for block in blocks:
        hashes = block["hash"]
        is_repeated = np.empty(len(block), np.bool_)
        is_repeated[1:] = hashes[1:] == hashes[:-1]
        is_repeated[0] = last is not None and hashes[0] == last
        last = hashes[-1]
        repeated = np.empty(int(is_repeated.sum()), _INDEX)
        repeated["index"] = block["index"][is_repeated]
        yield repeated
