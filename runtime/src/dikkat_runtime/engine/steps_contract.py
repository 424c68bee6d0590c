"""What search asks of a decoder that takes single steps, whatever computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dikkat_runtime.native.arrays import Array


class Steps(Protocol):
    """A decoder that is fed one token a row at a time, whatever computes it."""

    @property
    def length(self) -> int:
        """Tokens that every row was fed so far."""
        ...

    @property
    def limit(self) -> int | None:
        """Most tokens that a row can be fed; None where there is no end."""
        ...

    def step(self, tokens: Sequence[int]) -> Array:
        """Logits (R, V) of the token that follows `tokens`, one for each row."""
        ...

    def attention(self) -> Array:
        """Where the last step looked in the source, (R, S): the last layer's cross-attention, the mean of its heads."""
        ...

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        """From now on there are as many rows as `parents`; each goes on from that row, for its source in `owners`."""
        ...

    def rewind(self, length: int) -> None:
        """Go back to one row of one source, fed so many tokens, from which all rows have gone on since."""
        ...

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        """The `k` largest of each row (N, M) and where they stand, the lowest index first among equals."""
        ...

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        """The largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
        ...
