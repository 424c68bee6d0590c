"""Record a beam search: at each step the candidates of every live hypothesis, and their fate.

tree = BeamTree(batch_size, options)
beam_search(model, source, source_mask, options, tree.watch)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Int
from torch import Tensor

from dikkat.torch_engine.beam_search import Candidates
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.special_tokens import EOS_ID

Fate = Literal["lives", "ends", "falls"]


@dataclass(frozen=True, slots=True)
class Branch:
    """Hold one candidate of one step."""

    parent: int
    """Index of the hypothesis it continues among those that survive the step before, 0 the best."""
    token: int
    log_probability: float
    """Log-probability of the whole hypothesis, in nats."""
    score: float
    """`log_probability / length ** alpha`, the length being the number of the step."""
    fate: Fate
    """Survives, enters the finished store, or is lost: too low, or ended after the first k."""


class BeamTree:
    """Record one beam search; `steps[sentence][step]` are its candidates, best first."""

    def __init__(self, batch_size: int, options: BeamOptions) -> None:
        self.steps: list[list[list[Branch]]] = [[] for _ in range(batch_size)]
        self._options = options

    def watch(self, sentences: Int[Tensor, "B"], ranked: Candidates) -> None:
        """Record one step of the sentences with these numbers; this is the `Watcher` for `beam_search`."""
        rows = zip(ranked.parents.tolist(), ranked.tokens.tolist(), ranked.log_probability.tolist(), strict=True)
        for number, row in zip(sentences.tolist(), rows, strict=True):
            self.steps[number].append(self._branches(len(self.steps[number]) + 1, *row))

    def _branches(
        self, length: int, parents: list[int], tokens: list[int], log_probabilities: list[float]
    ) -> list[Branch]:
        penalty = length**self._options.alpha
        branches: list[Branch] = []
        living = 0
        for rank, (parent, token, total) in enumerate(zip(parents, tokens, log_probabilities, strict=True)):
            if total == float("-inf"):  # a place without a hypothesis
                break
            fate: Fate = "falls"
            if token == EOS_ID:
                fate = "ends" if rank < self._options.beam_size else "falls"
            elif living < self._options.beam_size:
                fate, living = "lives", living + 1
            branches.append(Branch(parent, token, total, total / penalty, fate))
        return branches


def path_of(hypothesis: Hypothesis, steps: Sequence[Sequence[Branch]]) -> list[int]:
    """Return the rank of `hypothesis` among the candidates of each step of its sentence, up to its end.

    Raises `ValueError` if these steps did not come to it.
    """
    path: list[int] = []
    parent = 0
    for step, token in zip(steps, (*hypothesis.tokens, *((EOS_ID,) if hypothesis.finished else ())), strict=False):
        rank = next((i for i, branch in enumerate(step) if (branch.parent, branch.token) == (parent, token)), None)
        if rank is None:
            raise ValueError(f"step {len(path) + 1} of this search has no such hypothesis")
        path.append(rank)
        parent = sum(branch.fate == "lives" for branch in step[:rank])
    return path
