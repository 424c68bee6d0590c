"""The contract of a decoder that takes single steps, as search calls it on any engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dikkat_runtime.engine.hypotheses import Sentence
from dikkat_runtime.engine.outputs import Hypothesis
from dikkat_runtime.native.arrays import Array


class Steps(Protocol):
    """A decoder that is fed one token a row at a time, on any engine."""

    @property
    def length(self) -> int:
        """The number of tokens that every row was fed so far."""
        ...

    @property
    def limit(self) -> int | None:
        """The most tokens that a row can be fed; None where there is no limit."""
        ...

    @property
    def forced(self) -> int:
        """The number of tokens that every target begins with, which are fed before and counted nowhere else."""
        ...

    def step(self, tokens: Sequence[int]) -> Array:
        """Return logits (R, V) of the token that follows `tokens`, one for each row."""
        ...

    def attention(self) -> Array:
        """Return the attention of the last step over the source, (R, S): the mean of the heads of the last layer."""
        ...

    def states(self) -> Array:
        """The states (R, D) that the last logits were made of."""
        ...

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        """Continue with as many rows as `parents`; each continues that row, for its source in `owners`."""
        ...

    def rewind(self, length: int) -> None:
        """Go back to one row of one source, fed `length` tokens, which all rows have in common."""
        ...

    def finish(
        self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int
    ) -> list[list[Hypothesis]] | None:
        """Search on from the live hypotheses of `sentences` to the end, without constraints, in one call.

        Returns the `n_best` hypotheses of each; None where nothing is known but single steps. `penalties` are the
        divisors for every length, `early_stop_rank` the rank of `DecodingOptions`.
        """
        ...

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        """Return the `k` largest of each row (N, M) and their indices, the lowest index first among equals."""
        ...

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        """Return the largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
        ...
