"""The ranks of a training, as its loop asks them, and those of a training by one process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from dikkat.training.distributed.shares import pieces_of
from dikkat_runtime.errors import StoppedError, msg

# Sums of vectors in the order of a fixed binary tree, whichever process adds up which of its branches.


def tree_sum(leaves: range, leaf: Callable[[int], Tensor], lefts: list[Tensor] | None = None) -> Tensor:
    """Add up the vectors that `leaf` computes, each half of `leaves` by itself and then both, in float32.

    `leaf` may return the same memory each time. The only leaf of a range comes back as it is. While a leaf is computed,
    `lefts` holds the sums of the left halves that end right before a half with it, the largest first. The last leaf
    and these, the last of them first, add up to the whole.
    """
    lefts = [] if lefts is None else lefts
    if len(leaves) == 1:
        return leaf(leaves[0])
    middle = len(leaves) // 2
    left = tree_sum(leaves[:middle], leaf, lefts)
    if middle == 1:
        # the memory of a leaf holds the next one
        left = left.to(torch.float32, copy=True)
    lefts.append(left)
    right = tree_sum(leaves[middle:], leaf, lefts)
    return lefts.pop().add_(right)


def branches_within(leaves: range, own: range) -> list[range]:
    """Return the largest branches of the tree over `leaves` that lie in the stretch `own`, from left to right."""
    if own.start <= leaves.start and leaves.stop <= own.stop:
        return [leaves]
    if len(leaves) == 1 or leaves.stop <= own.start or own.stop <= leaves.start:
        return []
    middle = len(leaves) // 2
    return branches_within(leaves[:middle], own) + branches_within(leaves[middle:], own)


def sum_of_branches(leaves: range, branches: Mapping[range, Tensor]) -> Tensor:
    """Add up the sums of `branches`, which have all `leaves` between them, to the bits of `tree_sum`.

    Their memory is used up.
    """
    if leaves in branches:
        return branches[leaves]
    middle = len(leaves) // 2
    return sum_of_branches(leaves[:middle], branches).add_(sum_of_branches(leaves[middle:], branches))


Clock = Callable[[], float]
T = TypeVar("T")


class LostRankError(StoppedError):
    """Another rank died, is stopped, or cannot be reached any more."""

    explained_by = 0
    """Exit code of the other rank, where that prints itself why it ended; 0 where none does."""


@contextmanager
def answering() -> Iterator[None]:
    """Turn the errors of the exchanges in the body into `LostRankError`."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rpartition("] ")[2].partition(". ")[0]
        raise LostRankError(msg("another rank died or does not respond ({reason})", reason)) from error


class EarlyPart(NamedTuple):
    """Computes the last part of a rank, whose vector (N,) has some entries ready before the others."""

    spans: Sequence[slice]
    """The early entries, ascending: E of them."""
    compute: Callable[[int, Callable[[Tensor], None]], Tensor]
    """Computes a part as `Ranks.sum_parts` has it, and hands its early entries (E,), in float32, to the function.

    They are used up. A part may end without that, and then they are those of its vector.
    """


class Ranks:
    """The processes that train together; every method but `parts` is called by all of them, in the same order.

    The base class is one process that trains alone.
    """

    index, count = 0, 1
    has_begun = False
    """Whether the ranks were started again after the first one had begun the run, which they then take up."""

    @property
    def is_first(self) -> bool:
        """Tell whether this rank is the one that writes, validates and speaks."""
        return self.index == 0

    def parts(self, number: int) -> range:
        """Return which of the parts of an update, cut into that number, are this rank's."""
        return range(number)

    def clock(self, wall: Clock) -> Clock:
        """Return a clock that tells all ranks the `wall` time of the first one, as it was at the last exchange."""
        return wall

    def tick(self, should_stop: bool) -> bool:
        """Move the clock on; returns whether any rank should stop."""
        return should_stop

    def share(self, values: Sequence[float]) -> list[float]:
        """Return the values of the first rank, whatever the others have."""
        return list(values)

    def adopt(self, state: Mapping[str, Any], vectors: Iterable[Tensor]) -> dict[str, Any]:
        """Return the state of the first rank, and copy its vectors into those of the others."""
        return dict(state)

    def sum_count(self, count: int) -> int:
        """Add up a number of all ranks."""
        return count

    def sum_parts(self, number: int, part: Callable[[int], Tensor], early: EarlyPart | None = None) -> Tensor:
        """Add up the vectors (N,) that `part` computes for each of so many parts of an update, in float32.

        `part` is called for those of this rank, in order, and may return the same memory each time. The sum has the
        same bits for any number of ranks. With `early`, of all ranks or of none, several ranks exchange the early
        entries while the last part of each computes the others.
        """
        return tree_sum(range(number), part)

    def share_out(self, number: int, work: Callable[[Sequence[int]], list[T] | None]) -> list[T] | None:
        """Return what `work` computes of all items below `number`, in their order; each rank does some of them.

        It gets the items of this rank and returns a result for each, which JSON can hold, however long that takes; or
        None, where it was asked to stop, and then None comes back to all ranks.
        """
        return work(range(number))

    def gather(self, values: Tensor, start: int, total: int) -> Tensor:
        """Return the values (total,) of all ranks; those of this one, (N,), begin at `start`."""
        return values

    def complete(self, vector: Tensor, spans: Sequence[Sequence[slice]]) -> None:
        """Fill in the entries of `vector` (N,) that other ranks computed: those in the `spans` of each rank."""

    def collect(self, kept: Tensor, spans: Sequence[Sequence[slice]]) -> Iterator[Tensor]:
        """Yield a whole vector piece by piece on the first rank, and nothing on others; each keeps its `spans` of it.

        All ranks must go through it to the end. A piece is there until the next.
        """
        return (kept[piece.kept] for piece in pieces_of(spans))

    def deal(self, whole: Tensor | None, kept: Tensor, spans: Sequence[Sequence[slice]]) -> None:
        """Copy into `kept` this rank's `spans` of the vector that is `whole` on the first rank."""
        if whole is not None:
            kept.copy_(whole)

    def mark_begun(self) -> None:
        """Note, on the first rank, that the run is that of this command: `has_begun` when it is started again."""

    def leading(self) -> AbstractContextManager[None]:
        """Let the first rank work alone in the body, however long, while the others are in `await_first`."""
        return nullcontext()

    def await_first(self) -> None:
        """Wait until the first rank leaves `leading`."""

    def check_same(self, facts: Mapping[str, str], where: str) -> None:
        """Compare facts, by name, with those of the first rank. Raises `DataError` naming the first that differs."""


ONE_PROCESS = Ranks()


def by_first(ranks: Ranks, work: Callable[[], T]) -> T | None:
    """Let the first rank do `work` while the others wait; returns its result there, and None elsewhere."""
    if ranks.is_first:
        with ranks.leading():
            return work()
    ranks.await_first()
    return None
