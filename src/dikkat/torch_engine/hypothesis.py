"""Finished hypotheses in tensors, and their conversion to Python objects."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat_runtime.engine.contract import Hypothesis


def length_penalties(max_length: int, alpha: float, device: torch.device, forced: int = 0) -> Float[Tensor, "L"]:
    """Return the divisors `(length + forced) ** alpha` for every length from 0 to `max_length`, in float32.

    Of the normalisations in Wu et al. 2016, section 7, this is the plain one; with alpha 1 it is the mean
    log-probability of a token. `forced` tokens begin every output beside those that it emits.
    """
    # A table, since a vectorised power may differ in the last bit with the place of an element in its batch.
    powers = [1.0] + [(length + forced) ** alpha for length in range(1, max_length + 1)]
    return torch.tensor(powers, dtype=torch.float32, device=device)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold hypotheses of the `N` sentences that ended at one step, `n` slots for each, best first."""

    sentences: Int[Tensor, "N"]
    """Number of each sentence in its batch."""
    tokens: Int[Tensor, "N n L"]
    lengths: Int[Tensor, "N n"]
    """Emitted tokens, the end token included."""
    log_probability: Float[Tensor, "N n"]
    scores: Float[Tensor, "N n"]
    """Minus infinity marks a slot without a hypothesis."""
    finished: Bool[Tensor, "N n"]


def gather_hypotheses(outcomes: list[Outcome], batch_size: int) -> list[list[Hypothesis]]:
    """Return the hypotheses of every sentence of the batch, in the order of the batch."""
    collected: list[list[Hypothesis]] = [[] for _ in range(batch_size)]
    for outcome in outcomes:
        for number, hypotheses in zip(outcome.sentences.tolist(), _read(outcome), strict=True):
            collected[number] = hypotheses
    return collected


def _read(outcome: Outcome) -> list[list[Hypothesis]]:
    fields = (outcome.tokens, outcome.lengths, outcome.log_probability, outcome.scores, outcome.finished)
    sentences = zip(*(field.tolist() for field in fields), strict=True)
    return [
        [
            Hypothesis(tuple(tokens[: length - finished]), score, log_probability, finished)
            for tokens, length, log_probability, score, finished in zip(*slots, strict=True)
            if score != float("-inf")
        ]
        for slots in sentences
    ]
