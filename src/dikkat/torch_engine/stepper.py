"""The interface that decoding needs of a model, and the stepper that runs a batch one token at a time.

The stepper owns the model's cache and which sentences are still in the batch; what to emit next is its user's choice.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.ranking import NextTokens
from dikkat.torch_engine.repetition import completing_ngrams, penalized
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, PAD_ID


@runtime_checkable
class DecoderCache(Protocol):
    """Hold keys and values of what was decoded so far (self-attention) and of the source (cross-attention)."""

    @property
    def length(self) -> int:
        """Return how many tokens every row was fed so far."""
        ...

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        """Let row `r` continue row `index[r]`; `index` never crosses sentences."""
        ...

    def drop(self, keep: Int[Tensor, "N"]) -> None:
        """Keep only the sentences numbered in `keep` (rising), with all their rows."""
        ...


CacheT = TypeVar("CacheT", bound=DecoderCache)


@runtime_checkable
class CachedModel(Protocol[CacheT]):
    """Decode step by step, with a cache of its own kind."""

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Encode the source; `source_mask` is True at real tokens."""
        ...

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> CacheT:
        """Return a `DecoderCache` of `B * rows_per_sentence` rows; rows of one sentence are adjacent.

        It is empty, or holds what every output begins with.
        """
        ...

    def step(self, tokens: Int[Tensor, "R"], cache: CacheT) -> Float[Tensor, "R V"]:
        """Feed every row a token at position `cache.length`, and return the logits of the next.

        The caller may change the returned tensor.
        """
        ...


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
        """Tokens that every output begins with beside those it emits."""
        self._tokens = torch.full((batch_size * rows_per_sentence,), BOS_ID, device=device)

    @property
    def length(self) -> int:
        """Return how many tokens every row has emitted once the pending choice is made."""
        return self._cache.length - self.forced

    def next_tokens(self, written: Int[Tensor, "R L"]) -> NextTokens:
        """Run the model on the last tokens.

        `written` are all tokens that each row has emitted, for limits on repetition.
        """
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
