"""The n-gram model that a language model is to beat: interpolated Kneser-Ney (Chen and Goodman 1999, section 3)."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)


class KneserNey:
    """An n-gram model of ids, with one discount an order; a text begins with `order` - 1 marks that are not predicted.

    N-grams are identified by 64-bit hashes.
    """

    def __init__(self, rows: Sequence[Sequence[int]], vocab_size: int, order: int = 5) -> None:
        """Count the n-grams of the texts `rows`, ids below `vocab_size`."""
        self._vocab_size, self._order = vocab_size, order
        stream, is_text = self._stream(rows)
        positions = np.flatnonzero(is_text)
        self._orders: list[_Order] = []
        for size in range(1, order + 1):
            if size == order:
                grams = _hashes(stream, positions, size)
                distinct, first, counts = np.unique(grams, return_index=True, return_counts=True)
            else:
                # how many different ids stand before it, of which the lower orders are made
                longer = positions[np.unique(_hashes(stream, positions, size + 1), return_index=True)[1]]
                distinct, index, counts = np.unique(
                    _hashes(stream, longer, size), return_index=True, return_counts=True
                )
                first = np.searchsorted(positions, longer[index])
            contexts = _hashes(stream, positions[first] - 1, size - 1)
            self._orders.append(_Order(distinct, counts, contexts))

    def nats(self, rows: Sequence[Sequence[int]]) -> float:
        """Return the negative log-likelihood of all ids but the first of each of `rows`."""
        stream, is_text = self._stream(rows)
        is_text[np.flatnonzero(is_text & ~np.concatenate(([False], is_text[:-1])))] = False
        return float(-np.log(self._probabilities(stream, np.flatnonzero(is_text))).sum())

    def probabilities(self, context: Sequence[int]) -> NDArray[np.float64]:
        """Return the probability (V,) of each id after `context`."""
        start = self._order - 1 + len(context)
        stream, _ = self._stream([[*context, token] for token in range(self._vocab_size)])
        step = start + 1
        return self._probabilities(stream, np.arange(start, step * self._vocab_size, step))

    def _probabilities(self, stream: Hashes, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        shares = np.full(len(positions), 1.0 / self._vocab_size)
        for size, counted in enumerate(self._orders, start=1):
            grams, contexts = _hashes(stream, positions, size), _hashes(stream, positions - 1, size - 1)
            shares = counted.interpolate(grams, contexts, shares)
        return shares

    def _stream(self, rows: Sequence[Sequence[int]]) -> tuple[Hashes, NDArray[np.bool_]]:
        """Return all texts one after the other with marks before each, and where the ids of texts stand."""
        marks = [self._vocab_size] * (self._order - 1)
        stream = np.fromiter(chain.from_iterable(chain(marks, row) for row in rows), np.uint64)
        return stream, stream != self._vocab_size


class _Order:
    def __init__(self, grams: Hashes, counts: NDArray[np.int64], contexts: Hashes) -> None:
        """`grams` rise, each once, with their `counts` and the hashes of their `contexts`."""
        self._grams, self._counts = grams, counts
        ones, twos = int((counts == 1).sum()), int((counts == 2).sum())
        # without n-grams that occur once there is nothing to estimate it from
        self._discount = ones / (ones + 2 * twos) if ones else 0.5
        self._contexts, inverse, self._types = np.unique(contexts, return_inverse=True, return_counts=True)
        self._sums = np.bincount(inverse, counts, minlength=len(self._contexts))

    def interpolate(self, grams: Hashes, contexts: Hashes, shorter: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of n-grams, from those of their ends."""
        index, is_known = _lookup(self._grams, grams)
        counts = np.where(is_known, self._counts[index], 0)
        index, is_seen = _lookup(self._contexts, contexts)
        total = np.where(is_seen, self._sums[index], 1.0)
        weight = self._discount * self._types[index] / total
        return np.where(is_seen, np.maximum(counts - self._discount, 0.0) / total + weight * shorter, shorter)


def _lookup(ordered: Hashes, wanted: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each of `wanted` stands in what rises, and whether it does."""
    index = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return index, ordered[index] == wanted


def _hashes(stream: Hashes, positions: NDArray[np.int64], size: int) -> Hashes:
    """Return the hash of the `size` ids that end at each position; a stream begins with marks enough."""
    hashes = np.full(len(positions), size, np.uint64)
    for offset in range(size - 1, -1, -1):
        # an index before the first is that of a mark, as the first is
        hashes = (hashes ^ stream[np.maximum(positions - offset, 0)]) * _FACTORS[0]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _FACTORS[1]
    return hashes ^ (hashes >> np.uint64(32))
