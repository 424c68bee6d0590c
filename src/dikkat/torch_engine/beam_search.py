"""Beam search: the best hypotheses of every sentence side by side, all sentences in one batch.

A sentence has `k` places. At each step its `k` live hypotheses are continued, and the continuations ranked by
log-probability:
  1. the best 2k continuations become candidates (at most one of each parent ends, so k or more of them go on);
  2. those of the first k that end enter the finished store, which keeps the best k by normalised score;
  3. the first k that do not end live on;
  4. a sentence is over when its store is full and no live hypothesis, ending now, would be its best (with `thorough`,
     would enter its store); when none can enter its n-best however it goes on; or at its cap;
  5. sentences that are over leave the batch.
With k = 1 this is greedy decoding. Of equal continuations the one with the better-ranked parent, then the
lower id, ranks first; of equal scores the earlier finish.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.ranking import top
from dikkat.torch_engine.stepper import CachedModel, Outcome, Stepper, gather_hypotheses, length_penalties, split_ended
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.special_tokens import EOS_ID, PAD_ID

_NEVER = float("-inf")


@dataclass(slots=True)
class Live:
    """Hold the hypotheses that still grow, best first, of L tokens each."""

    tokens: Int[Tensor, "B k L"]
    log_probability: Float[Tensor, "B k"]
    """Minus infinity where there is none."""

    def select(self, indices: Int[Tensor, "N"]) -> "Live":
        """Keep only the sentences with these indices."""
        return Live(self.tokens[indices], self.log_probability[indices])


@dataclass(slots=True)
class Finished:
    """Hold the ended hypotheses, best first."""

    tokens: Int[Tensor, "B k L"]
    """Tokens without the end token."""
    lengths: Int[Tensor, "B k"]
    """Lengths with the end token."""
    log_probability: Float[Tensor, "B k"]
    scores: Float[Tensor, "B k"]
    """Minus infinity in a free slot."""

    def select(self, indices: Int[Tensor, "N"]) -> "Finished":
        """Keep only the sentences with these indices."""
        return Finished(
            self.tokens[indices], self.lengths[indices], self.log_probability[indices], self.scores[indices]
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hold the best 2k continuations of every sentence, best first."""

    log_probability: Float[Tensor, "B m"]
    parents: Int[Tensor, "B m"]
    """Index of the live hypothesis that is continued."""
    tokens: Int[Tensor, "B m"]


Watcher = Callable[[Int[Tensor, "B"], Candidates], None]
"""Receives, every step after its ranking, the numbers of the sentences still in the batch and their candidates."""


@torch.inference_mode()
def beam_search(
    model: CachedModel[Any],
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    options: BeamOptions,
    watcher: Watcher | None = None,
) -> list[list[Hypothesis]]:
    """Return at most `n_best` hypotheses a sentence: ended ones by falling score, then ones cut at the cap.

    `source_mask` is True at real tokens. Fewer than `n_best` come back only when no more exist within the cap. The
    result of a sentence does not depend on the rest of its batch, nor on who watches.
    """
    batch_size = source.shape[0]
    if batch_size == 0:
        return []
    stepper = Stepper(model, source, source_mask, options, rows_per_sentence=options.beam_size)
    penalties = length_penalties(stepper.max_cap, options.alpha, source.device, stepper.forced)
    live, finished = _start(batch_size, options.beam_size, source.device)
    outcomes: list[Outcome] = []
    while True:
        # the best 2k continuations of each sentence (step 1)
        following = stepper.next_tokens(live.tokens.flatten(0, 1))
        sums = following.best(live.log_probability, 2 * live.log_probability.shape[1])
        ranked = Candidates(sums.values, sums.rows, sums.columns)
        if watcher is not None:
            watcher(stepper.sentences, ranked)
        finished = finish(finished, ranked, live, stepper.length, penalties)
        live, tokens, parents = survive(ranked, live)
        parts = split_ended(_over(stepper, live, finished, penalties, options))
        staying = None
        if parts is not None:
            leaving, staying = parts
            over_at = torch.full_like(leaving, stepper.length)
            ended = over_at, live.select(leaving), finished.select(leaving)
            outcomes.append(outcome_of(stepper.sentences[leaving], *ended, penalties, options.n_best))
            live, finished = live.select(staying), finished.select(staying)
            if len(staying) == 0:
                return gather_hypotheses(outcomes, batch_size)
        stepper.advance(tokens, parents, staying)


def _start(batch_size: int, beam_size: int, device: torch.device) -> tuple[Live, Finished]:
    """One empty live hypothesis a sentence: its other rows would only repeat it."""
    shape = (batch_size, beam_size)
    tokens = torch.empty((*shape, 0), dtype=torch.int64, device=device)
    log_probability = torch.full(shape, _NEVER, device=device)
    lengths = torch.ones(shape, dtype=torch.int64, device=device)
    free = Finished(tokens, lengths, log_probability, log_probability)
    log_probability = log_probability.clone()
    log_probability[:, 0] = 0.0
    return Live(tokens, log_probability), free


def finish(finished: Finished, ranked: Candidates, live: Live, length: int, penalties: Float[Tensor, "P"]) -> Finished:
    """Move ended hypotheses into the finished store (step 2).

    `length` counts the end token. Of equal scores the earlier finish ranks first.
    """
    beam_size = finished.scores.shape[1]
    first = slice(0, beam_size)
    log_probability = ranked.log_probability[:, first]
    ends = ranked.tokens[:, first] == EOS_ID
    scores = (log_probability / penalties[length]).masked_fill(~ends, _NEVER)
    kept, indices = top(torch.cat([finished.scores, scores], dim=1), beam_size)
    tokens = torch.cat([_wider(finished.tokens, length - 1), _rows(live.tokens, ranked.parents[:, first])], dim=1)
    lengths = torch.cat([finished.lengths, torch.full_like(finished.lengths, length)], dim=1)
    log_probabilities = torch.cat([finished.log_probability, log_probability], dim=1)
    return Finished(_rows(tokens, indices), lengths.gather(1, indices), log_probabilities.gather(1, indices), kept)


def survive(ranked: Candidates, live: Live) -> tuple[Live, Int[Tensor, "B k"], Int[Tensor, "B k"]]:
    """Return the new live hypotheses, their last tokens, and the indices of their parents (step 3)."""
    num_candidates = ranked.tokens.shape[1]
    beam_size = live.log_probability.shape[1]
    # Candidates that end go after all others; every rank occurs once, so the sort has one answer.
    ranks = torch.arange(num_candidates, device=ranked.tokens.device) + num_candidates * (ranked.tokens == EOS_ID)
    chosen = ranks.sort(dim=1).indices[:, :beam_size]
    tokens, parents = ranked.tokens.gather(1, chosen), ranked.parents.gather(1, chosen)
    history = torch.cat([_rows(live.tokens, parents), tokens.unsqueeze(2)], dim=2)
    return Live(history, ranked.log_probability.gather(1, chosen)), tokens, parents


def _over(
    stepper: Stepper, live: Live, finished: Finished, penalties: Float[Tensor, "P"], options: BeamOptions
) -> Bool[Tensor, "B"]:
    """Step 4.

    A full store alone ends nothing: a live hypothesis may outscore all that has ended, and with one place it never
    does, since what lives on was ranked after what ended.

    Stopping when no live hypothesis can enter the n-best changes no result. Let s <= 0 be the log-probability of the
    best live hypothesis and c the length cap. A token adds at most 0, so whatever grows from any live hypothesis ends
    with p <= s, at a length l <= c. Since alpha >= 0, l ** alpha <= c ** alpha; both sides are negative or zero, so
    p / l ** alpha <= s / l ** alpha <= s / c ** alpha. Rounding keeps all three orders. If that bound does not exceed
    the n-th best score, a newcomer could at most equal it, and of equals the earlier finish ranks first.
    """
    best = live.log_probability[:, 0]
    full = finished.scores[:, -1] > _NEVER
    # against the best, not the n-th: what a sentence finds must not depend on how much of it is asked for
    settled = full & (best / penalties[stepper.length] <= finished.scores[:, options.early_stop_rank])
    hopeless = best / penalties[stepper.caps] <= finished.scores[:, options.n_best - 1]
    return settled | hopeless | (stepper.caps <= stepper.length)


def outcome_of(
    sentences: Int[Tensor, "N"],
    over_at: Int[Tensor, "N"],
    live: Live,
    finished: Finished,
    penalties: Float[Tensor, "P"],
    n_best: int,
) -> Outcome:
    """Return the n-best of the leaving sentences (step 5); those without an end fill slots that ended ones leave free.

    `over_at` is how many tokens their live hypotheses have. The score of an unended hypothesis lacks the price of its
    end, so it is never ranked before an ended one.
    """
    scores = torch.cat([finished.scores, live.log_probability / penalties[over_at].unsqueeze(1)], dim=1)
    # free places go last; the order is otherwise right already, and every rank occurs once
    ranks = torch.arange(scores.shape[1], device=scores.device) + scores.shape[1] * (scores == _NEVER)
    chosen = ranks.sort(dim=1).indices[:, :n_best]
    lengths = torch.cat([finished.lengths, over_at.unsqueeze(1).expand_as(finished.lengths)], dim=1)
    log_probability = torch.cat([finished.log_probability, live.log_probability], dim=1)
    return Outcome(
        sentences=sentences,
        tokens=_rows(torch.cat([_wider(finished.tokens, live.tokens.shape[2]), live.tokens], dim=1), chosen),
        lengths=lengths.gather(1, chosen),
        log_probability=log_probability.gather(1, chosen),
        scores=scores.gather(1, chosen),
        finished=chosen < finished.scores.shape[1],
    )


def _wider(tokens: Int[Tensor, "B k L"], length: int) -> Int[Tensor, "B k L2"]:
    return F.pad(tokens, (0, length - tokens.shape[2]), value=PAD_ID)


def _rows(tokens: Int[Tensor, "B n L"], indices: Int[Tensor, "B m"]) -> Int[Tensor, "B m L"]:
    return tokens.gather(1, indices.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


# Record a beam search: at each step the candidates of every live hypothesis, and their fate.


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
