"""The interface that decoding needs of a model, and the stepper that runs a batch one token at a time.

The stepper owns the model's cache and which sentences are still in the batch; what to emit next is its user's choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.ranking import NextTokens
from dikkat_runtime.engine import decoding
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, PAD_ID, source_ids

# Keep a row from repeating tokens.


def penalized(logits: Float[Tensor, "R V"], seen: Int[Tensor, "R T"], penalty: float) -> Float[Tensor, "R V"]:
    """Return logits with those of `seen` tokens lowered by `penalty`, once each (Keskar et al. 2019, section 4.1)."""
    present = torch.zeros_like(logits, dtype=torch.bool).scatter(1, seen, True)
    lowered = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(present, lowered, logits)


def completing_ngrams(written: Int[Tensor, "R T"], size: int, vocab_size: int) -> Bool[Tensor, "R V"]:
    """Return True at the tokens that would end an n-gram of `size` tokens which the row already has."""
    blocked = torch.zeros(len(written), vocab_size + 1, dtype=torch.bool, device=written.device)
    if written.shape[1] >= size:
        # (R, T) -> (R, T - size + 1, size)
        ngrams = written.unfold(1, size, 1)
        begun = written[:, written.shape[1] - size + 1 :].unsqueeze(1)
        repeats = (ngrams[:, :, :-1] == begun).all(dim=2)
        # n-grams that begin in another way block the column after the last token
        blocked.scatter_(1, torch.where(repeats, ngrams[:, :, -1], vocab_size), True)
    return blocked[:, :vocab_size]


# Pad the ids of a batch to one length.


def pad_sources(
    sentences: Sequence[Sequence[int]], device: torch.device, *, add_eos: bool = True
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return source ids padded to the longest, and the mask that is True at real tokens.

    Each source gets its end token if `add_eos`.
    """
    ids, mask = padded([source_ids(sentence, add_eos) for sentence in sentences])
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


# Finished hypotheses in tensors, and their conversion to Python objects.


def length_penalties(max_length: int, alpha: float, device: torch.device, forced: int = 0) -> Float[Tensor, "L"]:
    """Return the divisors of every length from 0 to `max_length` on a device, those of the native engine."""
    return torch.tensor(decoding.length_penalties(max_length, alpha, forced), device=device)


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


@runtime_checkable
class DecoderCache(Protocol):
    """Hold keys and values of what was decoded so far (self-attention) and of the source (cross-attention).

    What it reorders never crosses sentences.
    """

    @property
    def length(self) -> int:
        """Return how many tokens of every row were read so far."""

    def reorder(self, index: Int[Tensor, "R2"]) -> None:
        """Let row `r` continue row `index[r]`; a shorter index drops rows."""

    def drop(self, keep: Int[Tensor, "N"]) -> None:
        """Keep only the sentences numbered in `keep` (rising), with all their rows."""


CacheT = TypeVar("CacheT", bound=DecoderCache)


@runtime_checkable
class CachedModel(Protocol[CacheT]):
    """Decode step by step, with a cache of its own kind."""

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Encode the source; `source_mask` is True at real tokens."""

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> CacheT:
        """Return a `DecoderCache` of `B * rows_per_sentence` rows; rows of one sentence are adjacent.

        It is empty, or holds what every output begins with.
        """

    def step(self, tokens: Int[Tensor, "R"], cache: CacheT) -> Float[Tensor, "R V"]:
        """Feed every row a token at position `cache.length`, and return the logits of the next.

        The caller may change the returned tensor.
        """


def length_caps(source_mask: Bool[Tensor, "B S"], options: DecodingOptions) -> list[int]:
    """Return the most tokens, end token included, that each sentence may emit.

    The cap depends on the sentence's own source, never on its batch.
    """
    return [options.length_cap(length) for length in source_mask.sum(dim=1).tolist()]


class Stepper:
    """Run a batch of sentences through a model step by step, each on `rows_per_sentence` rows.

    `sentences` (B,) holds the numbers, in the batch it began with, of those still in it; `caps` (B,) their length caps.
    """

    def __init__(
        self,
        model: CachedModel[Any],
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        options: DecodingOptions,
        *,
        rows_per_sentence: int = 1,
        scored: bool = True,
    ) -> None:
        batch_size, device = source.shape[0], source.device
        caps = length_caps(source_mask, options)
        self.rows_per_sentence = rows_per_sentence
        self.scored = scored
        """Whether anybody asks for log-probabilities."""
        self.max_cap = max(caps)
        self.caps = torch.tensor(caps, device=device)
        self.sentences = torch.arange(batch_size, device=device)
        self._model, self._options = model, options
        memory = model.encode(source, source_mask)
        self._cache: DecoderCache = model.start_cache(memory, source_mask, rows_per_sentence=rows_per_sentence)
        # a model may have read what every output begins with
        self.forced = int(self._cache.length)
        """Tokens that every output begins with, in addition to those it emits."""
        self._tokens = torch.full((batch_size * rows_per_sentence,), BOS_ID, device=device)

    @property
    def length(self) -> int:
        """Return how many tokens every row has emitted once the pending choice is made."""
        return self._cache.length - self.forced

    def next_tokens(self, written: Int[Tensor, "R L"]) -> NextTokens:
        """Run the model on the last tokens. `written` are all tokens of each row so far, for limits on repetition."""
        logits, blocked = self._model.step(self._tokens, self._cache), None
        if self._options.repetition_penalty != 1.0:
            logits = penalized(logits, written, self._options.repetition_penalty)
        if size := self._options.no_repeat_ngram:
            blocked = completing_ngrams(written, size, logits.shape[1])
        return NextTokens(logits, (PAD_ID, BOS_ID), scored=self.scored, blocked=blocked)

    def advance(
        self, tokens: Int[Tensor, "B rows"], parents: Int[Tensor, "B rows"], staying: Int[Tensor, "N"] | None
    ) -> None:
        """Emit `tokens`, each after the row of its sentence that `parents` names; only `staying` sentences go on.

        `staying` None keeps all. Ended sentences leave before the cache is reordered: less to copy.
        """
        if staying is not None:
            self._cache.drop(staying)
            self.sentences, self.caps = self.sentences[staying], self.caps[staying]
            tokens, parents = tokens[staying], parents[staying]
        if self.rows_per_sentence > 1:
            # number within the sentence (B, rows) -> number within the batch (R,)
            first_rows = torch.arange(len(parents), device=parents.device) * self.rows_per_sentence
            self._cache.reorder((first_rows.unsqueeze(1) + parents).flatten())
        self._tokens = tokens.flatten()


def split_ended(ended: Bool[Tensor, "B"]) -> tuple[Tensor, Tensor] | None:
    """Return the indices of the ended and of the other sentences, or None when none has ended.

    This is the only synchronisation with the host in a step.
    """
    flags: list[bool] = ended.tolist()
    if not any(flags):
        return None
    leaving = [index for index, flag in enumerate(flags) if flag]
    staying = [index for index, flag in enumerate(flags) if not flag]
    as_indices = [torch.tensor(indices, dtype=torch.int64, device=ended.device) for indices in (leaving, staying)]
    return as_indices[0], as_indices[1]
