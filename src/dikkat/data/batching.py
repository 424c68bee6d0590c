"""Batches of pairs of similar length, in an order that is a function of the position alone.

Pairs are sorted by length, cut where the padded tokens of either side would pass the limit, and the batches shuffled.
Only ties of length are broken at random, so the cuts, and with them the number of batches, are the same in every
epoch: batch number `p` of a rank is batch `p % batches_per_epoch` of epoch `p // batches_per_epoch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.data.corpus import Corpus, Side
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Hold the padded ids of B pairs, int64."""

    source: IntArray
    """(B, S): ids, `<eos>`, padding."""
    target_input: IntArray
    """(B, T): `<bos>`, ids, padding."""
    target_output: IntArray
    """(B, T): ids, `<eos>`, padding; position t is what is predicted from `target_input[:, :t+1]`."""
    indices: IntArray
    """(B,): indices of the pairs in the corpus."""

    @property
    def num_tokens(self) -> int:
        """Return the tokens to predict: entries of `target_output` that are not padding."""
        return int(np.count_nonzero(self.target_output != PAD_ID))

    def backwards(self) -> Batch:
        """Return the same pairs, from target to source."""
        return Batch(self.target_output, _shifted(self.source), self.source, self.indices)


def collate(corpus: Corpus, indices: IntArray) -> Batch:
    """Return the batch of the pairs `indices`, `(B,)`, in that order."""
    source = _padded(corpus, indices, "source")
    target_output = _padded(corpus, indices, "target")
    return Batch(source, _shifted(target_output), target_output, indices)


def _shifted(output: IntArray) -> IntArray:
    """What is fed in where `output` (B, T) is predicted."""
    shifted = np.full_like(output, PAD_ID)
    shifted[:, 0] = BOS_ID
    # everything but <eos> moves one place to the right
    shifted[:, 1:] = np.where(output[:, :-1] == EOS_ID, PAD_ID, output[:, :-1])
    return shifted


def _padded(corpus: Corpus, indices: IntArray, side: Side) -> IntArray:
    """Ids, `<eos>`, padding, `(B, longest + 1)`."""
    flat, lengths = corpus.gather(indices, side)
    columns = np.arange(lengths.max() + 1)
    padded = np.full((len(indices), len(columns)), PAD_ID, np.int64)
    padded[columns < lengths[:, None]] = flat
    padded[columns == lengths[:, None]] = EOS_ID
    return padded


class BatchPlan:
    """Decide which pairs are in which batch: a pure function of lengths, limit, seed, epoch and world size.

    In a batch, pairs times the longest sequence (`<eos>` or `<bos>` included) stays within `tokens_per_batch` on
    either side; a single longer pair is a batch of its own. With several ranks, rank r has the batches r, r + W,
    r + 2W, … of each epoch; up to W - 1 batches come twice so that all ranks have equally many.
    """

    def __init__(
        self,
        source_lengths: IntArray,
        target_lengths: IntArray,
        tokens_per_batch: int,
        seed: int,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        if not len(source_lengths):
            raise UsageError("there is not a single pair to make batches of")
        # <eos> on the source; <bos> or <eos> on the target
        self._source = np.asarray(source_lengths, np.int64) + 1
        self._target = np.asarray(target_lengths, np.int64) + 1
        self._seed, self._world_size, self._rank = seed, world_size, rank
        self._key = _sort_key(self._source, self._target)
        self._cuts = self._cut(np.argsort(self._key, kind="stable"), tokens_per_batch)
        self._cached: tuple[int, list[IntArray]] = (-1, [])

    @property
    def batches_per_epoch(self) -> int:
        """Return the batches of one rank in any epoch."""
        return -(-(len(self._cuts) - 1) // self._world_size)

    def epoch(self, number: int) -> list[IntArray]:
        """Return the batches of this rank in epoch `number`, each the indices `(B,)` of its pairs."""
        if self._cached[0] != number:
            self._cached = (number, self._plan(number))
        return self._cached[1]

    def at(self, position: int) -> tuple[int, IntArray]:
        """Return epoch and indices of the batch that comes after `position` batches."""
        epoch, within = divmod(position, self.batches_per_epoch)
        return epoch, self.epoch(epoch)[within]

    def padding_share(self, batches: Sequence[IntArray]) -> tuple[float, float]:
        """Return the share of padding in all `batches` together, of the source and of the target entries."""
        return _padding(self._source, batches), _padding(self._target, batches)

    def _plan(self, epoch: int) -> list[IntArray]:
        # Raw bits of the generator: numpy keeps these the same for ever, its shuffling it does not.
        seed = np.random.SeedSequence([self._seed % 2**64, epoch])
        bits = np.random.PCG64(seed)
        order = np.lexsort((bits.random_raw(len(self._key)), self._key))
        batches = np.split(order, self._cuts[1:-1])
        shuffled = np.argsort(bits.random_raw(len(batches)), kind="stable")
        slots = np.arange(self._rank, self.batches_per_epoch * self._world_size, self._world_size)
        return [batches[shuffled[slot % len(batches)]] for slot in slots]

    def _cut(self, order: IntArray, limit: int) -> list[int]:
        """Where batches begin in the sorted order, and its end."""
        longest, begin, cuts = 0, 0, [0]
        for index, length in enumerate(np.maximum(self._source, self._target)[order].tolist()):
            longest = max(longest, length)
            if longest * (index + 1 - begin) > limit and index > begin:
                cuts.append(index)
                begin, longest = index, length
        return [*cuts, len(order)]


def _sort_key(source: IntArray, target: IntArray) -> IntArray:
    """First the longer side, which sets the cost of a pair; then how much longer it is.

    The second key runs up and down in turn (a snake), so that a batch across a border still holds pairs alike.
    On multi30k at 4,096 tokens this pads 3 % of either side; sorting by target, then source pads 12 % of the source.
    """
    longer, difference = np.maximum(source, target), source - target
    span = int(longer.max()) + 1
    return longer * (2 * span) + np.where(longer % 2 == 0, difference, -difference)


def _padding(lengths: IntArray, batches: Sequence[IntArray]) -> float:
    entries = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    return 1.0 - sum(int(lengths[batch].sum()) for batch in batches) / entries
