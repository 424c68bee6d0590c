"""Constraints over token ids that beam search meets, each with a small state for every hypothesis.

Search asks a constraint which tokens may follow, which lead to what is missing, and how much is written already: it
ranks hypotheses among those that have written as much (dynamic beam allocation, Post and Vilar 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import UNK_ID
from dikkat_runtime.text.vocabulary_bytes import VocabularyBytes, is_word

State = Any
"""A hashable value that only its constraint can read."""
Tokens = Sequence[int] | Array
"""Token ids."""


class Constraint(Protocol):
    """A condition that every output of one sentence must meet."""

    @property
    def start(self) -> State:
        """The state of an output without tokens."""

    def after(self, state: State, token: int) -> State:
        """Return the state after one more token, which is never the end mark."""

    def allowed(self, state: State) -> Tokens | None:
        """Return the only tokens that may follow, or None where all may."""
        return None

    def banned(self, state: State) -> Tokens:
        """Return the tokens that must not follow."""

    def wanted(self, state: State) -> Sequence[int]:
        """Return the tokens that bring the output nearer to what is missing; none where `allowed` names all."""
        return ()

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """Return the log-probability that a wanted token belongs here, given that it has to be written somewhere.

        `scores` (V,) are the model's log-probabilities, `attention` (S,) is its attention while it writes the token.
        """
        return float(scores[token])

    def progress(self, state: State) -> int:
        """Return how much is written already; hypotheses are ranked among those with the same number."""
        return 0

    def missing(self, state: State) -> int:
        """Return about how many tokens are missing; the output may end at 0."""

    def is_settled(self, state: State) -> bool:
        """Return whether nothing is missing or ruled out any more, whatever comes next."""
        return False

    @property
    def reads_attention(self) -> bool:
        """True if the constraint reads the attention of the model."""
        return False

    @property
    def extra_rows(self) -> int:
        """The number of hypotheses that the search should follow beyond those of a search without the constraint."""
        return 0


@dataclass(frozen=True)
class All:
    """Several constraints that an output meets together."""

    parts: tuple[Constraint, ...]

    @property
    def start(self) -> State:
        return tuple(part.start for part in self.parts)

    def after(self, state: State, token: int) -> State:
        """Return the states of all parts after one more token."""
        return tuple(part.after(part_state, token) for part, part_state in zip(self.parts, state, strict=True))

    def allowed(self, state: State) -> Tokens | None:
        """Return the tokens that the first part with a restriction allows."""
        for part, part_state in zip(self.parts, state, strict=True):
            if (tokens := part.allowed(part_state)) is not None:
                return tokens
        return None

    def banned(self, state: State) -> Tokens:
        """Return the tokens that any part bans, but none while a part names all tokens that may follow."""
        if self.allowed(state) is not None:
            return ()
        pairs = zip(self.parts, state, strict=True)
        return [int(token) for part, part_state in pairs for token in part.banned(part_state)]

    def wanted(self, state: State) -> Sequence[int]:
        """Return the tokens that any part wants, but none while a part names all tokens that may follow."""
        if self.allowed(state) is not None:
            return ()
        return [token for part, part_state in zip(self.parts, state, strict=True) for token in part.wanted(part_state)]

    def placement_score(self, state: State, token: int, scores: Array, attention: Array | None) -> float:
        """Return the score of the part that wants the token most here."""
        return max(
            part.placement_score(part_state, token, scores, attention)
            for part, part_state in zip(self.parts, state, strict=True)
            if token in part.wanted(part_state)
        )

    def progress(self, state: State) -> int:
        return sum(part.progress(part_state) for part, part_state in zip(self.parts, state, strict=True))

    def missing(self, state: State) -> int:
        return sum(part.missing(part_state) for part, part_state in zip(self.parts, state, strict=True))

    def is_settled(self, state: State) -> bool:
        return all(part.is_settled(own) for part, own in zip(self.parts, state, strict=True))

    @property
    def reads_attention(self) -> bool:
        """True if any part reads the attention of the model."""
        return any(part.reads_attention for part in self.parts)

    @property
    def extra_rows(self) -> int:
        return sum(part.extra_rows for part in self.parts)


MAX_ROWS = 16
"""Hypotheses of a sentence that a search under constraints follows, unless its beam is wider."""


def rows_of_beam(beam_size: int, constraints: Sequence[Constraint | None] | None) -> int:
    """Return how many hypotheses are followed side by side: enough for every number of parts that may be written."""
    extra = max((constraint.extra_rows for constraint in constraints or () if constraint is not None), default=0)
    return max(beam_size, min(beam_size + extra, MAX_ROWS))


def length_caps(
    lengths: Sequence[int],
    options: DecodingOptions,
    constraints: Sequence[Constraint | None] | None,
    longest: int | None = None,
) -> list[int]:
    """Return the most tokens, end mark included, of outputs for sources of these `lengths`, constraints included.

    None is more than `longest`.
    """
    caps = [options.length_cap(length) for length in lengths]
    of_sources = constraints or [None] * len(caps)
    needed = [0 if constraint is None else constraint.missing(constraint.start) for constraint in of_sources]
    whole = [cap + more for cap, more in zip(caps, needed, strict=True)]
    return whole if longest is None else [min(cap, longest) for cap in whole]


# A constraint that an output begins with given bytes, whatever the borders of its tokens.


@dataclass(frozen=True)
class Prefix(Constraint):
    """A constraint that an output begins with the `kept` tokens, then with tokens whose bytes begin with `rest`.

    Where no token fits inside `rest`, as in a vocabulary of whole words, the unknown word stands for the remaining
    bytes.
    """

    vocabulary: VocabularyBytes
    kept: tuple[int, ...]
    rest: bytes
    is_closed: bool = False
    """True if the last word is whole: the next token does not continue it."""

    @property
    def start(self) -> State:
        """The number of tokens and bytes written; one more after the end."""
        return 0

    @cached_property
    def _end(self) -> int:
        return len(self.kept) + len(self.rest)

    def after(self, state: State, token: int) -> State:
        """Return the state after one more of the kept tokens, or after the bytes of a token."""
        if state < len(self.kept) or state >= self._end:
            return min(state, self._end) + 1
        if token == UNK_ID and state < self._end:
            return self._end
        return min(self._end, state + len(self.vocabulary.tokens[token]))

    def allowed(self, state: State) -> Tokens | None:
        """Return the next kept token, then the tokens that fit `rest`; None when the prefix is written."""
        if state < len(self.kept):
            return self.kept[state : state + 1]
        if state >= self._end:
            return None
        rest = self.rest[state - len(self.kept) :]
        tokens = self.vocabulary.continuing(rest)
        if self.is_closed:
            tokens = np.array([token for token in tokens if not self._goes_on(token, len(rest))], np.int64)
        return tokens if len(tokens) else (UNK_ID,)

    def _goes_on(self, token: int, size: int) -> bool:
        rest = self.vocabulary.tokens[token][size:]
        return bool(rest) and is_word(rest)

    def continuation(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes that `tokens`, an output with this prefix, write after the prefix."""
        state, written = 0, b""
        for token in tokens:
            raw = self.vocabulary.tokens[token]
            if state >= self._end:
                written += raw
            elif state >= len(self.kept) and token != UNK_ID:
                written += raw[self._end - state :]
            state = self.after(state, token)
        return written

    def banned(self, state: State) -> Tokens:
        """Return the tokens that would continue a whole last word."""
        return self.vocabulary.begins_in_word if self.is_closed and state == self._end else ()

    def is_settled(self, state: State) -> bool:
        """Return whether all is written, and a word that is whole has been left."""
        return bool(state > self._end or (state == self._end and not self.is_closed))

    def missing(self, state: State) -> int:
        """Return the number of tokens and bytes of the prefix that are not written."""
        return max(0, self._end - int(state))
