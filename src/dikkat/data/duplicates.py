"""Leave out pairs that came before, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import CleaningReport
from dikkat.data.disk_arrays import BLOCK, DiskArray, Records, sorted_records
from dikkat.data.pairs import Pair
from dikkat.data.stored_pairs import StoredPairs

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
    repeats = sorted_records(_repeated(sorted_records(_hashes(pairs), pairs.directory)), pairs.directory)
    dropped = DiskArray.of((block["index"] for block in repeats), np.int64, pairs.directory)
    if not len(dropped):
        return pairs
    report.note("duplicate", shown(pairs[int(dropped.read(0, 1)[0])]), len(dropped))
    report.kept -= len(dropped)
    return pairs.without(dropped.blocks())


def hash_records(numbers: Iterable[int], start: int) -> Records:
    """Return records of hashes with the indices from `start` on."""
    hashes = np.array(list(numbers), np.uint64)
    records = np.empty(len(hashes), _HASH)
    records["hash"], records["index"] = hashes, np.arange(start, start + len(hashes))
    return records


def _hashes(pairs: Iterable[Pair]) -> Iterator[Records]:
    start, rest = 0, iter(pairs)
    while block := [_hash(pair) for pair in islice(rest, BLOCK)]:
        yield hash_records(block, start)
        start += len(block)


def _hash(pair: Pair) -> int:
    # "\n" cannot stand in a text that passed the rules, so it separates the sides without doubt
    digest = blake2b(f"{pair.source}\n{pair.target}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


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
