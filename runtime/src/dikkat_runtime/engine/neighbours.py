"""Search looks at every step into a memory of tokens that were written before in like states of the decoder.

A state of the decoder says what is to be written next. Where a state of a corrected translation is near, the token
that a person put there becomes likelier (nearest-neighbour translation, Khandelwal et al. 2021). Here each sentence
looks only at the translations that are near it as a whole, as in Meng et al. 2022, and there is no share to choose:
what a state counts falls with its distance, and without a near one nothing changes at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dikkat_runtime.native.arrays import Array, aligned

RATE = 16.0
"""How fast a state counts less: by exp(-rate) where its squared distance is its own square."""
WEIGHT = 64.0
"""What a state counts next to the model's probabilities where it is met exactly."""
FARTHEST = 16.0
"""Rate times distance from which on a state does not count."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """States (N, D) of the decoder, and the token (N,) that follows each."""

    states: Array
    tokens: Array


@dataclass(frozen=True, slots=True)
class NeighboursOfBatch:
    """The states of all sentences of a batch, one sentence after the other."""

    states: Array
    """(N, D)."""
    tokens: Array
    """(N,)."""
    starts: Array
    """(B + 1,): where those of each sentence begin."""
    rates: Array
    """(N,): what the squared distance of each state is multiplied by."""

    @classmethod
    def of(cls, neighbours: Sequence[Neighbours | None]) -> "NeighboursOfBatch | None":
        """Return those of a batch; None where no sentence has any."""
        own = [item for item in neighbours if item is not None]
        if not own:
            return None
        states = aligned(np.concatenate([item.states for item in own]))
        tokens = aligned(np.concatenate([item.tokens for item in own]), np.int64)
        sizes = [0 if item is None else len(item.tokens) for item in neighbours]
        starts = aligned(np.array([0, *accumulate(sizes)]), np.int64)
        return cls(states, tokens, starts, aligned(RATE / np.maximum((states**2).sum(axis=1), np.float32(1e-6))))

    def add_to(self, logits: Array, states: Array, owners: Sequence[int]) -> None:
        """Make the tokens that follow near states likelier in logits (R, V), for rows in `states` (R, D).

        `owners` are the sentences of the rows. To the probability of each token, which are then normalized again, is
        added `WEIGHT` * exp(-`RATE` * |state - neighbour|² / |neighbour|²) for each neighbour that it followed.
        """
        for row, owner in enumerate(owners):
            start, end = self.starts[owner], self.starts[owner + 1]
            if start == end:
                continue
            largest = logits[row].max()
            total = largest + np.log(np.exp(logits[row] - largest).sum())
            distances = self.rates[start:end] * ((self.states[start:end] - states[row]) ** 2).sum(axis=1)
            for distance, token in zip(distances, self.tokens[start:end], strict=True):
                if distance < FARTHEST:
                    logits[row, token] = np.logaddexp(logits[row, token], total + np.log(WEIGHT) - distance)
