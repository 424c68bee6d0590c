"""Hold out groups of near-duplicate pairs, as `splitting` does, in memory that does not grow with the pairs.

A group is followed from one of its pairs through the pairs that share a side with it, which are looked up on disk, and
no further than a part has space for. Nearly all data fills its parts with the first few thousand groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dikkat.config import DataConfig
from dikkat.data.disk_arrays import BLOCK, DiskArray, Records, sorted_records
from dikkat.data.pairs import Pair
from dikkat.data.splitting import GIANT_SHARE, HeldOut, pair_keys, quotas_of, split_pairs

_KEYS = np.dtype([("source", "<u8"), ("target", "<u8")])
_ENTRY = np.dtype([("key", "<u8"), ("index", "<i8")])
_STEP = 512
"""Of a sorted array on disk, one key in so many is kept in memory."""


def hold_out_pairs(pairs: Sequence[Pair], config: DataConfig, seed: int, directory: Path | None = None) -> HeldOut:
    """Return the indices of the pairs that `split_pairs` holds out; it does so itself where groups are few and large.

    Raises as `split_pairs`, and `DiskError`.
    """
    quotas = quotas_of(len(pairs), config)
    keys = DiskArray.of(_keys(pairs, seed), _KEYS, directory)
    groups = _Groups(keys, directory)
    parts = HeldOut([], [])
    largest = max(1, len(keys) // GIANT_SHARE)
    while (most := max(min(largest, quota - len(part)) for part, quota in zip(parts, quotas, strict=True))) > 0:
        group = groups.next(most)
        if group is None:
            break
        for part, quota in zip(parts, quotas, strict=True):
            if len(group) <= min(largest, quota - len(part)):
                part += group
                break
    if any(quota and not part for part, quota in zip(parts, quotas, strict=True)):
        # a group over the quota is held out, so the sizes of all groups are needed
        split = split_pairs(pairs, config, seed)
        return HeldOut(split.validation, split.test)
    return HeldOut(sorted(parts.validation), sorted(parts.test))


def _keys(pairs: Iterable[Pair], seed: int) -> Iterator[Records]:
    waiting = list[tuple[int, int]]()
    for pair in pairs:
        waiting.append(pair_keys(pair, seed))
        if len(waiting) == BLOCK:
            yield np.array(waiting, _KEYS)
            waiting = []
    yield np.array(waiting, _KEYS)


class _Groups:
    """Find groups of pairs that share a key, in the order of the smallest key of their sources."""

    def __init__(self, keys: DiskArray, directory: Path | None) -> None:
        self._keys = keys
        self._by_source, self._by_target = (_Index(keys, side, directory) for side in ("source", "target"))
        # one bit a pair
        self._seen = np.zeros(len(keys) // 8 + 1, np.uint8)
        self._firsts = self._by_source.firsts()

    def next(self, most: int) -> list[int] | None:
        """Return the next group of at most `most` pairs, or None where there is none left.

        A group that was passed over since it was larger is not looked at again: what a part has space for only shrinks.
        """
        for index, count in self._firsts:
            if count <= most and not self._is_seen(index):
                group = self._group_of(index, most)
                if group is not None:
                    return group
        return None

    def _group_of(self, first: int, most: int) -> list[int] | None:
        """Every pair that is connected with `first`; None where they are more than `most`, or were passed over."""
        members, waiting = {first}, [first]
        self._mark(first)
        while waiting:
            source, target = self._keys.read(waiting[-1], waiting.pop() + 1)[0]
            for index, key in ((self._by_source, source), (self._by_target, target)):
                alike = index.members(key, most)
                if alike is None:
                    return None
                for other in alike:
                    if other in members:
                        continue
                    if self._is_seen(other):
                        return None
                    self._mark(other)
                    members.add(other)
                    waiting.append(other)
            if len(members) > most:
                return None
        return list(members)

    def _is_seen(self, index: int) -> bool:
        return bool(self._seen[index >> 3] >> (index & 7) & 1)

    def _mark(self, index: int) -> None:
        self._seen[index >> 3] |= 1 << (index & 7)


class _Index:
    """The pairs in the order of the key of one side, on disk."""

    def __init__(self, keys: DiskArray, side: Literal["source", "target"], directory: Path | None) -> None:
        self._sorted = DiskArray.of(sorted_records(_entries(keys, side), directory), _ENTRY, directory)
        firsts = [self._sorted.read(start, start + 1)["key"] for start in range(0, len(self._sorted), _STEP)]
        self._every = np.concatenate(firsts) if firsts else np.empty(0, np.uint64)

    def members(self, key: np.uint64, most: int) -> list[int] | None:
        """Return the pairs of a key, ascending; None where they are more than `most`."""
        first, last = np.searchsorted(self._every, key, "left"), np.searchsorted(self._every, key, "right")
        if (last - first - 1) * _STEP > most:
            return None
        begin = max(0, int(first) - 1) * _STEP
        block = self._sorted.read(begin, int(last) * _STEP)
        low, high = (int(np.searchsorted(block["key"], key, side)) for side in ("left", "right"))
        return None if high - low > most else block["index"][low:high].tolist()

    def firsts(self) -> Iterator[tuple[int, int]]:
        """Yield for each key its first pair, and a lower bound of how many pairs it has."""
        last: np.uint64 | None = None
        for block in self._sorted.blocks():
            keys = block["key"]
            starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
            counts = np.diff(starts, append=len(keys))
            begin = int(last is not None and keys[0] == last)
            last = keys[-1]
            yield from zip(block["index"][starts[begin:]].tolist(), counts[begin:].tolist(), strict=True)


def _entries(keys: DiskArray, side: Literal["source", "target"]) -> Iterator[Records]:
    start = 0
    for block in keys.blocks():
        entries: NDArray[np.void] = np.empty(len(block), _ENTRY)
        entries["key"], entries["index"] = block[side], np.arange(start, start + len(block))
        start += len(block)
        yield entries
