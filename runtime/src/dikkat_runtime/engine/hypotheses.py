"""Outputs of an engine, live hypotheses, and the lists of continuations that decoding step by step works on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dikkat_runtime.engine.constraints import Constraint, State
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import EOS_ID


@dataclass(frozen=True, slots=True)
class TokenScores:
    """The scores of the T tokens of an output, its end mark included."""

    tokens: Sequence[int]
    """Ids without the end mark."""
    values: Array
    """(T, 3), in nats: log-probability; distance to the best other token, negative where the model would have written
    that one; entropy of the distribution over the words that might have been written."""
    source_length: int
    """Tokens of the source, its end mark included."""

    @property
    def log_probabilities(self) -> Array:
        """The log-probabilities (T,) of the tokens."""
        return self.values[:, 0]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output for one sentence."""

    tokens: tuple[int, ...]
    """Ids without the begin and end marks."""
    score: float
    """`log_probability / length ** alpha`, the end mark counted in the length (Wu et al. 2016, section 7).

    NaN, as the log-probability, where `DecodingOptions.scores` is off and the way of decoding does not need them.
    """
    log_probability: float
    """Sum of the model's own log-probabilities (natural logarithm), the end mark's included; never above 0."""
    finished: bool
    """True if the model ended the sentence itself, before the length cap."""
    token_scores: TokenScores | None = field(default=None, repr=False, compare=False)
    """Those of its tokens, where `DecodingOptions.token_scores` is on and the way of decoding knows them."""


EMPTY = Hypothesis(tokens=(), score=0.0, log_probability=0.0, finished=True)
"""The only output of an empty sentence."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder states of a batch of sources."""

    states: Array
    """(B, S, D), zeros at padding."""
    lengths: tuple[int, ...]
    """Tokens of each source, its end mark included where the model reads one."""
    words: tuple[Array, ...] | None = None
    """Rising ids of the words that the translation of each source may consist of; None where these are all."""
    weights: tuple[Any, ...] = ()
    """What the decoder of each source computes with, where they differ in their adapters; else empty."""

    def of(self, numbers: Sequence[int]) -> "Memory":
        """Return the states of the sources with these numbers, which may repeat."""
        lengths = tuple(self.lengths[number] for number in numbers)
        words = None if self.words is None else tuple(self.words[number] for number in numbers)
        weights = tuple(self.weights[number] for number in numbers if self.weights)
        states = self.states[list(numbers), : max(lengths)]
        return replace(self, states=states, lengths=lengths, words=words, weights=weights)


def require_finite(values: Array, where: str) -> Array:
    """Return the values that a model computed. Raises `DataError` as `not_finite` for NaN and infinities."""
    if not np.isfinite(values).all():
        raise not_finite(where)
    return values


def not_finite(where: str) -> DataError:
    """Return the error of finite weights, in the file `where`, whose products are too large for their type."""
    return DataError(
        "{where}: damaged: computing with these weights gives numbers that are not finite; restore the file", where
    )


NEVER = np.float32("-inf")
NO_BONUS = np.float32(0)


@dataclass(slots=True)
class Row:
    """A hypothesis that still grows."""

    tokens: list[int]
    log_probability: np.float32
    state: State = None
    """The state of its constraint."""
    bonus: np.float32 = NO_BONUS
    """The part of `log_probability` that the model did not give, granted for tokens that had to be written."""


@dataclass(slots=True)
class Sentence:
    """One sentence of a batch: its live hypotheses, best first, and those that have ended."""

    number: int
    cap: int
    rows: list[Row]
    constraint: Constraint | None = None
    ended: list[tuple[float, Hypothesis]] = field(default_factory=list)
    """Each with its rank: its score, with the bonus."""

    @property
    def is_settled(self) -> bool:
        """Return whether the constraint leaves every live hypothesis alone from now on."""
        constraint = self.constraint
        return constraint is None or all(
            constraint.is_settled(row.state) for row in self.rows if row.log_probability > NEVER
        )


class Candidate(NamedTuple):
    """One continuation of one hypothesis."""

    log_probability: np.float32
    parent: int
    """Index of the hypothesis that is continued."""
    token: int
    bonus: np.float32 = NO_BONUS


def constrain(logits: Array, row: Row, constraint: Constraint, steps_left: int) -> None:
    """Put minus infinity at what must not follow a hypothesis with `steps_left` tokens left, the end mark included."""
    missing = constraint.missing(row.state)
    only = constraint.allowed(row.state)
    if only is None and 0 < missing >= steps_left - 1:
        # while steps are left, the model chooses where to write what is missing; then only that may follow
        only = constraint.wanted(row.state)
    if only is not None:
        tokens = np.asarray(only, np.int64)
        kept = logits[tokens]
        logits.fill(NEVER)
        logits[tokens] = kept
        return
    banned = constraint.banned(row.state)
    if len(banned):
        logits[np.asarray(banned, np.int64)] = NEVER
    if missing:
        logits[EOS_ID] = NEVER


def allocated(
    candidates: Sequence[Candidate], states: Sequence[State], constraint: Constraint, count: int
) -> list[int]:
    """Return the numbers of the candidates that live on: at most `count`, best first.

    Every number of met constraints has an equal share of the beam; what one does not need the others get. The candidate
    with the most progress always lives on, so that after some steps every constraint is met.
    """
    banks: dict[int, list[int]] = {}
    for number, state in enumerate(states):
        banks.setdefault(constraint.progress(state), []).append(number)
    furthest = max(banks)
    # a higher number is a worse candidate
    order = [furthest, *sorted((bank for bank in banks if bank != furthest), key=lambda bank: banks[bank][0])]
    share = max(1, count // len(banks))
    chosen = [number for bank in order for number in banks[bank][:share]]
    rest = sorted(set(range(len(candidates))).difference(chosen))
    return sorted([*chosen, *rest][:count])
