"""Sums over the ranks, to the bits of one process: of whole vectors, or of some entries while others are computed."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor

from dikkat.training.distributed.ranks import EarlyPart, answering, branches_within, sum_of_branches, tree_sum


class ExchangedSum:
    """Adds up the parts of an update that the ranks compute; `shares` are the parts of each, and `index` is this rank.

    With `early`, all ranks begin to exchange those entries once in their last part, and after it where they did not.
    """

    def __init__(self, shares: Sequence[range], index: int, early: EarlyPart | None = None) -> None:
        self._tree = range(shares[-1].stop)
        self._branches = [branches_within(self._tree, share) for share in shares]
        self._index, self._early = index, early
        self._own: list[Tensor] = []
        self._lefts: list[Tensor] = []
        self._begun: BranchExchange | None = None

    def of(self, part: Callable[[int], Tensor]) -> Tensor:
        """Compute the parts of this rank and return the sum of those of all; see `Ranks.sum_parts`."""
        for branch in self._branches[self._index]:
            total = tree_sum(branch, lambda index: self._compute(index, part), self._lefts)
            # `part` may return the same memory again
            self._own.append(total.to(torch.float32, copy=len(branch) == 1))
        with answering():
            if self._early is None or self._begun is None:
                return self._begin(self._own).total()
            return self._complete(self._begun, self._early.spans)

    def _compute(self, index: int, part: Callable[[int], Tensor]) -> Tensor:
        if self._early is None or index != self._branches[self._index][-1][-1]:
            return part(index)
        vector = self._early.compute(index, self._begin_early)
        if self._begun is None:
            self._begin_early(take(vector, self._early.spans).float())
        return vector

    def _begin_early(self, entries: Tensor) -> None:
        """Begin to exchange the early entries, those of the last part; all collectives that follow come after this."""
        assert self._early is not None
        if self._begun is not None:
            raise RuntimeError("the early entries of a part were handed over twice")
        spans = self._early.spans
        # the last part is the right one of each branch with it, so that the smallest branch is added first
        for left in reversed(self._lefts):
            _add(entries, left, spans)
        with answering():
            self._begun = self._begin([*(take(vector, spans) for vector in self._own), entries])

    def _begin(self, own: Sequence[Tensor]) -> "BranchExchange":
        return BranchExchange(self._tree, self._branches, own)

    def _complete(self, begun: "BranchExchange", early: Sequence[slice]) -> Tensor:
        """Exchange all other entries, and return all."""
        total = self._own[0]
        late = _others(early, total.numel())
        if len(self._branches) == 2:
            # in place, where only the early entries take memory in addition to the vector
            for exchange in [self._begin([total[span]]) for span in late]:
                exchange.total()
        else:
            _put(total, self._begin([take(vector, late) for vector in self._own]).total(), late)
        _put(total, begun.total(), early)
        return total


class BranchExchange:
    """Begins to add up the vectors (N,) of all `branches`, those of each rank, and ends with `total`.

    `own` are the vectors of this rank's branches, and are used up.
    """

    def __init__(self, tree: range, branches: Sequence[Sequence[range]], own: Sequence[Tensor]) -> None:
        self._tree, self._branches, self._own = tree, branches, own
        self._ranges: list[Tensor] = []
        if len(branches) == 2:
            # each has one half of the tree, and two numbers add up to the same in either order
            self._works = [dist.all_reduce(own[0], async_op=True)]
            return
        count, length = len(branches), own[0].numel()
        self._works = []
        for number in range(max(map(len, branches))):
            vector = own[0].new_zeros(count * -(-length // count))
            if number < len(own):
                vector[:length] = own[number]
            self._ranges.append(torch.empty_like(vector))
            self._works.append(dist.all_to_all_single(self._ranges[-1], vector, async_op=True))

    def total(self) -> Tensor:
        """Wait for the other ranks and return the sum (N,): each adds up a range of it and sends it to the others."""
        for work in self._works:
            work.wait()
        if len(self._branches) == 2:
            return self._own[0]
        sums: dict[range, Tensor] = {}
        for number, ranges in enumerate(self._ranges):
            for of_rank, summand in zip(self._branches, ranges.view(len(self._branches), -1), strict=True):
                if number < len(of_rank):
                    sums[of_rank[number]] = summand
        total = torch.empty_like(self._ranges[0])
        dist.all_gather_into_tensor(total, sum_of_branches(self._tree, sums))
        return total[: self._own[0].numel()]


def take(vector: Tensor, spans: Sequence[slice]) -> Tensor:
    """Return a copy (E,) of the entries of `spans`, one after the other."""
    return torch.cat([vector[span] for span in spans])


def _put(vector: Tensor, entries: Tensor, spans: Sequence[slice]) -> None:
    for span, piece in zip(spans, _cut(entries, spans), strict=True):
        vector[span] = piece


def _add(entries: Tensor, vector: Tensor, spans: Sequence[slice]) -> None:
    for span, piece in zip(spans, _cut(entries, spans), strict=True):
        piece.add_(vector[span])


def _cut(entries: Tensor, spans: Sequence[slice]) -> Sequence[Tensor]:
    return entries.split([span.stop - span.start for span in spans])


def _others(spans: Sequence[slice], length: int) -> list[slice]:
    """Return the ranges of a vector between ascending spans."""
    ends = [0, *(bound for span in spans for bound in (span.start, span.stop)), length]
    return [slice(start, stop) for start, stop in list(pairwise(ends))[::2] if start < stop]
