"""Split pairs into training, validation and test parts between which no near-duplicate leaks.

Pairs that share a near key on either side belong to one group, and a group goes to one part as a whole. A random
split of the pairs themselves would put "I have 2 dogs." into training and "I have 3 dogs!" into the test.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dikkat.config import DataConfig
from dikkat.data.cleaning import shorten
from dikkat.data.disk_arrays import DiskArray, Records, record_blocks, sorted_records
from dikkat.data.near_duplicates import pair_keys, text_key
from dikkat.data.pairs import Pair
from dikkat_runtime.errors import DataError, msg, plural

HELD_OUT_SHARE = 20
"""Validation and test each get at most one pair in this many; with fewer pairs nothing is held out."""
GIANT_SHARE = 100
"""A group of more than one pair in this many always trains: held out, it would be most of its part."""


class HeldOut(NamedTuple):
    """Hold the indices of the pairs that are not trained on, ascending."""

    validation: list[int]
    test: list[int]

    def take(self, group: Sequence[int], quotas: tuple[int, int], largest: int) -> bool:
        """Add a group to the first part that has space for it; return whether one had."""
        for part, quota in zip(self, quotas, strict=True):
            if len(group) <= min(largest, quota - len(part)):
                part += group
                return True
        return False


def split_pairs(pairs: Sequence[Pair], config: DataConfig, seed: int) -> HeldOut:
    """Hold out whole groups of near-duplicates, chosen by hash: a pure function of the texts and the seed.

    Each held-out part has at most 5 % of the pairs and at most the number in `config`, but never less than one group
    when there are 20 pairs or more; with fewer pairs all train. Raises `DataError` for fewer groups than parts.
    """
    return _split([pair_keys(pair, seed) for pair in pairs], "pair", config, [pair.source for pair in pairs])


def split_texts(texts: Sequence[str], config: DataConfig, seed: int) -> HeldOut:
    """Split texts that have a label instead of a translation; near-duplicates of a text stay together."""
    return _split([(text_key(text, seed),) for text in texts], "text", config, texts)


def quotas_of(count: int, config: DataConfig) -> tuple[int, int]:
    """Return how many of `count` pairs are to be held out at most, for validation and for the test."""
    return min(config.validation_pairs, count // HELD_OUT_SHARE), min(config.test_pairs, count // HELD_OUT_SHARE)


def _split(keys: Sequence[tuple[int, ...]], what: str, config: DataConfig, texts: Sequence[str]) -> HeldOut:
    quotas = quotas_of(len(keys), config)
    groups = _groups(keys)
    needed = 1 + sum(map(bool, quotas))
    if needed > 1 and len(groups) < needed:
        raise DataError(
            "{count} in only {groups} of near-duplicates{alike}: too few to hold out whole groups; add more "
            "varied {unit}s, or name validation data with --valid"
        ).fill(plural(len(keys), what), plural(len(groups), "group"), _alike(groups, texts), what)
    return _hold_out(groups, quotas, largest=max(1, len(keys) // GIANT_SHARE))


def _alike(groups: list[list[int]], texts: Sequence[str]) -> str:
    """Two texts of the largest group, and why they are in it."""
    largest = max(groups, key=len)
    other = next((index for index in largest if texts[index] != texts[largest[0]]), None)
    if other is None:
        return ""
    return msg(
        " (differing in numbers, case or punctuation alone, or sharing a side, such as {first} and {second})"
    ).fill(shorten(texts[largest[0]]), shorten(texts[other]))


def _hold_out(groups: list[list[int]], quotas: tuple[int, int], largest: int) -> HeldOut:
    """Fill the parts in turn with groups, in their order, as far as the quotas reach."""
    parts = HeldOut([], [])
    rest = [group for group in groups if not parts.take(group, quotas, largest)]
    # Few pairs in large groups: one group over the quota, even a giant, is better than a part with nothing in it.
    smallest = iter(sorted(rest, key=len))
    for part, quota in zip(parts, quotas, strict=True):
        if quota and not part:
            part += next(smallest)
        part.sort()
    return parts


def _groups(keys: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Connected components of entries that share a key, in the order of the hashes of their first (union-find)."""
    parents = list(range(len(keys)))
    owners: dict[int, int] = {}
    for index, own in enumerate(keys):
        for key in own:
            parents[_root(parents, index)] = _root(parents, owners.setdefault(key, index))
    members: dict[int, list[int]] = {}
    for index in range(len(keys)):
        members.setdefault(_root(parents, index), []).append(index)
    # The smallest hash in a group does not depend on the order of the entries, and no other group has it.
    return sorted(members.values(), key=lambda group: min(keys[index][0] for index in group))


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


# Hold out groups of near-duplicate pairs in memory that does not grow with the pairs.
#
# A group is followed from one of its pairs through the pairs that share a side with it, which are looked up on disk,
# and no further than a part has space for. Nearly all data fills its parts with the first few thousand groups.

_KEYS = np.dtype([("source", "<u8"), ("target", "<u8")])
_ENTRY = np.dtype([("key", "<u8"), ("index", "<i8")])
_STEP = 512
"""Of a sorted array on disk, one key in so many is kept in memory."""


def hold_out_pairs(pairs: Sequence[Pair], config: DataConfig, seed: int, directory: Path | None = None) -> HeldOut:
    """Return the indices of the pairs that `split_pairs` holds out; it does so itself where groups are few and large.

    Raises as `split_pairs`, and `DiskError`.
    """
    quotas = quotas_of(len(pairs), config)
    keys = DiskArray.of(record_blocks((pair_keys(pair, seed) for pair in pairs), _KEYS), _KEYS, directory)
    groups = _Groups(keys, directory)
    parts = HeldOut([], [])
    largest = max(1, len(keys) // GIANT_SHARE)
    while (most := max(min(largest, quota - len(part)) for part, quota in zip(parts, quotas, strict=True))) > 0:
        group = groups.next(most)
        if group is None:
            break
        parts.take(group, quotas, largest)
    if any(quota and not part for part, quota in zip(parts, quotas, strict=True)):
        # a group over the quota is held out, so the sizes of all groups are needed
        return split_pairs(pairs, config, seed)
    return HeldOut(sorted(parts.validation), sorted(parts.test))


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
        block = self._sorted.read(max(0, int(first) - 1) * _STEP, int(last) * _STEP)
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
