"""What an output must hold: constraints over token ids that beam search keeps, each with a small state a hypothesis.

Search asks a constraint what may come next, what leads to the parts that are missing, and how many parts are there: it
ranks hypotheses beside those that have written as much of them (dynamic beam allocation, Post and Vilar 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.native.arrays import Array

State = Any
"""A hashable value; what it is, only its constraint knows."""
Tokens = Sequence[int] | Array
"""Ids."""


class Constraint(Protocol):
    """What the outputs of one sentence must hold."""

    @property
    def start(self) -> State:
        """The state of an output without tokens."""
        ...

    def after(self, state: State, token: int) -> State:
        """The state after one more token, which is never the end mark."""
        ...

    def allowed(self, state: State) -> Tokens | None:
        """The only tokens that may follow; None where all may."""
        ...

    def banned(self, state: State) -> Tokens:
        """Tokens that must not follow."""
        ...

    def wanted(self, state: State) -> Sequence[int]:
        """Tokens that bring the output nearer to what is missing."""
        ...

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """Log-probability that a wanted token belongs here, given that it has to be written somewhere.

        `scores` (V,) are the model's log-probabilities, `attention` (S,) what it looks at while it writes the token.
        """
        ...

    def progress(self, state: State) -> int:
        """How much is there; hypotheses are ranked against those with the same number."""
        ...

    def missing(self, state: State) -> int:
        """About how many tokens what is missing has; the output may end at 0."""
        ...

    @property
    def reads_attention(self) -> bool:
        """Whether it asks where the model looks."""
        ...

    @property
    def extra_rows(self) -> int:
        """How many more hypotheses the search should follow than without the constraint."""
        ...


@dataclass(frozen=True)
class All:
    """Several constraints together."""

    parts: tuple[Constraint, ...]

    @property
    def start(self) -> State:
        """The states of all parts."""
        return tuple(part.start for part in self.parts)

    def after(self, state: State, token: int) -> State:
        """The states after one more token."""
        return tuple(part.after(each, token) for part, each in zip(self.parts, state, strict=True))

    def allowed(self, state: State) -> Tokens | None:
        """What the first part that restricts the next token allows."""
        for part, each in zip(self.parts, state, strict=True):
            if (tokens := part.allowed(each)) is not None:
                return tokens
        return None

    def banned(self, state: State) -> Tokens:
        """What any part bans, but nothing while another says all that may follow."""
        if self.allowed(state) is not None:
            return ()
        return [int(token) for part, each in zip(self.parts, state, strict=True) for token in part.banned(each)]

    def wanted(self, state: State) -> Sequence[int]:
        """What any part wants, but nothing while another says all that may follow."""
        if self.allowed(state) is not None:
            return ()
        return [token for part, each in zip(self.parts, state, strict=True) for token in part.wanted(each)]

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """That of the part which wants the token most here."""
        return max(
            part.placement_score(each, token, scores, attention)
            for part, each in zip(self.parts, state, strict=True)
            if token in part.wanted(each)
        )

    def progress(self, state: State) -> int:
        """The sum over the parts."""
        return sum(part.progress(each) for part, each in zip(self.parts, state, strict=True))

    def missing(self, state: State) -> int:
        """The sum over the parts."""
        return sum(part.missing(each) for part, each in zip(self.parts, state, strict=True))

    @property
    def reads_attention(self) -> bool:
        """Whether any part asks where the model looks."""
        return any(part.reads_attention for part in self.parts)

    @property
    def extra_rows(self) -> int:
        """The sum over the parts."""
        return sum(part.extra_rows for part in self.parts)


MOST_ROWS = 16
"""Hypotheses of a sentence that a search under constraints follows, unless its beam is wider."""


def rows_of_beam(beam_size: int, constraints: Sequence[Constraint | None] | None) -> int:
    """How many hypotheses are followed side by side: enough for all numbers of parts that may be there."""
    extra = max((each.extra_rows for each in constraints or () if each is not None), default=0)
    return max(beam_size, min(beam_size + extra, MOST_ROWS))


def length_caps(
    lengths: Sequence[int], options: DecodingOptions, constraints: Sequence[Constraint | None] | None
) -> list[int]:
    """Most tokens, end mark included, of the outputs for sources of these `lengths`, with room for the constraints."""
    caps = [options.length_cap(length) for length in lengths]
    needed = [0 if each is None else each.missing(each.start) for each in constraints or [None] * len(caps)]
    return [cap + more for cap, more in zip(caps, needed, strict=True)]
