"""Greedy decoding and beam search that never wait for the host: each is a state in fixed buffers and a step on it.

The rules are those of `dikkat.torch_engine.beam_search`, and so are the results. Sentences that are over stay in the
batch until the caller takes the others out. Tokens and parents of every step are kept; hypotheses are put together at
the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dikkat.torch_engine.beam_search import Finished, Live, outcome_of
from dikkat.torch_engine.hypothesis import Outcome, length_penalties
from dikkat.torch_engine.ranking import NextTokens, top
from dikkat.torch_engine.static_decoder import StaticDecoder
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

_NEVER = float("-inf")


class StaticSearch(ABC):
    """Base of the ways to search: the state of B sentences of a decoder, of `rows` hypotheses each."""

    def __init__(self, decoder: StaticDecoder) -> None:
        self.decoder = decoder
        device, (sentences, rows) = decoder.position.device, decoder.shape
        self.tokens = torch.zeros(sentences, rows, dtype=torch.int64, device=device)
        self.over = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.sound = torch.zeros(sentences, dtype=torch.bool, device=device)
        """False where a number left the range of its type."""
        self.over_at = torch.zeros(sentences, dtype=torch.int64, device=device)
        """Tokens of a sentence that is over."""
        self.caps = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.penalties = torch.ones(decoder.capacity + 1, device=device)
        self.written = torch.zeros(decoder.capacity, sentences, rows, dtype=torch.int32, device=device)
        self.log_probability = torch.zeros(sentences, rows, device=device)

    def start(self, caps: Sequence[int], alpha: float) -> None:
        """Begin sentences that may have `caps` tokens; further ones in the batch are over at once."""
        sentences = self.decoder.shape[0]
        device = self.tokens.device
        self.tokens.fill_(BOS_ID)
        self.caps.copy_(torch.tensor([*caps, *[0] * (sentences - len(caps))]), non_blocking=True)
        self.over.copy_(self.caps == 0)
        self.sound.fill_(True)
        self.over_at.zero_()
        self.penalties.copy_(length_penalties(self.decoder.capacity, alpha, device))
        self.log_probability.zero_()

    def step(self, length: int) -> None:
        """Write one more token of every hypothesis, which has at most `length` with it."""
        emitted = self.decoder.position + 1
        over_now = self._choose(length, emitted)
        over_now = (over_now | (self.caps <= emitted)) & ~self.over
        self._keep(over_now)
        self.over_at.copy_(torch.where(over_now, emitted, self.over_at))
        self.over.logical_or_(over_now)
        self.decoder.position.copy_(emitted)

    def copy_sentences(self, other: StaticSearch, sentences: Int[Tensor, "B"], fed: int) -> None:
        """Go on with these sentences of another search, which has taken `fed` steps."""
        rows = self.decoder.shape[1]
        numbers = (sentences[:, None] * rows + torch.arange(rows, device=sentences.device)).flatten()
        self.decoder.copy_sentences(other.decoder, sentences, numbers, fed)
        self.penalties.copy_(other.penalties)
        for name in self._by_sentence():
            torch.index_select(getattr(other, name), 0, sentences, out=getattr(self, name))
        for name in self._by_step():
            source, target = getattr(other, name)[:fed], getattr(self, name)[:fed]
            torch.index_select(source, 1, sentences, out=target)

    @abstractmethod
    def outcome(self, sentences: Int[Tensor, "N"], fed: int) -> Outcome:
        """Return the hypotheses of these sentences after `fed` steps, on the processor; all of them are over."""

    @abstractmethod
    def _choose(self, length: int, emitted: Int[Tensor, "1"]) -> Bool[Tensor, "B"]:
        """Take a step; return which sentences end with it."""

    @abstractmethod
    def _keep(self, over_now: Bool[Tensor, "B"]) -> None:
        """Keep what later steps would change of sentences that end now."""

    def _by_sentence(self) -> tuple[str, ...]:
        return "tokens", "over", "sound", "over_at", "caps", "log_probability"

    def _by_step(self) -> tuple[str, ...]:
        return ("written",)


class GreedySearch(StaticSearch):
    """Greedy decoding; see `dikkat.torch_engine.greedy`."""

    def __init__(self, decoder: StaticDecoder, options: DecodingOptions) -> None:
        super().__init__(decoder)
        self._scored = options.scores

    def _choose(self, length: int, emitted: Int[Tensor, "1"]) -> Bool[Tensor, "B"]:
        logits = self.decoder.step(self.tokens.flatten(), None, length)
        normalizer = logits.float().logsumexp(dim=-1) if self._scored else None
        for token in (PAD_ID, BOS_ID):
            logits[:, token].fill_(_NEVER)
        # of equals `max` promises the first
        largest, tokens = logits.max(dim=-1)
        self.sound.logical_and_(largest.isfinite() | self.over)
        if normalizer is not None:
            added = torch.where(self.over, 0.0, largest.float() - normalizer)
            self.log_probability.add_(added[:, None])
        self.tokens.copy_(tokens[:, None])
        self.written.index_copy_(0, self.decoder.position, tokens.int()[None, :, None])
        return tokens == EOS_ID

    def _keep(self, over_now: Bool[Tensor, "B"]) -> None:
        """Leave all as it is: later steps write behind the end, and add nothing to the log-probability."""

    def outcome(self, sentences: Int[Tensor, "N"], fed: int) -> Outcome:
        """Return the hypotheses of these sentences after `fed` steps, on the processor; all of them are over."""
        # (L, N, 1) -> (N, 1, L)
        tokens = self.written[:fed].index_select(1, sentences).cpu().long().permute(1, 2, 0)
        lengths = self.over_at[sentences].cpu()[:, None]
        log_probability = self.log_probability[sentences].cpu()
        if not self._scored:
            log_probability.fill_(torch.nan)
        last = tokens.gather(2, lengths[:, :, None] - 1)[:, :, 0]
        scores = log_probability / self.penalties.cpu()[lengths]
        return Outcome(sentences.cpu(), tokens, lengths, log_probability, scores, last == EOS_ID)


class BeamSearch(StaticSearch):
    """Beam search; see `dikkat.torch_engine.beam_search`."""

    def __init__(self, decoder: StaticDecoder, options: BeamOptions) -> None:
        super().__init__(decoder)
        self._n_best, self._settled_rank = options.n_best, options.early_stop_rank
        sentences, beam_size = decoder.shape
        device = self.tokens.device
        self._first_rows = torch.arange(0, sentences * beam_size, beam_size, device=device)[:, None]
        self.parents = torch.zeros(sentences, beam_size, dtype=torch.int64, device=device)
        self.written_parents = torch.zeros_like(self.written)
        self.final = torch.zeros_like(self.log_probability)
        """Log-probabilities of the live hypotheses when their sentence was over."""
        self.ended_scores = torch.zeros_like(self.log_probability)
        self.ended = torch.zeros_like(self.log_probability)
        """Log-probabilities of the ended hypotheses, best first."""
        self.ended_lengths, self.ended_slots = torch.zeros_like(self.parents), torch.zeros_like(self.parents)
        """Lengths with the end token; slots of the hypotheses that ended, among those of the step before."""

    def start(self, caps: Sequence[int], alpha: float) -> None:
        """Begin sentences that may have `caps` tokens; further ones in the batch are over at once."""
        super().start(caps, alpha)
        self.log_probability[:, 1:] = _NEVER
        self.log_probability.masked_fill_(self.over[:, None], _NEVER)
        self.parents.copy_(torch.arange(self.parents.shape[1], device=self.parents.device).expand_as(self.parents))
        for scores in (self.final, self.ended, self.ended_scores):
            scores.fill_(_NEVER)
        self.ended_lengths.fill_(1)
        self.ended_slots.zero_()

    def _choose(self, length: int, emitted: Int[Tensor, "1"]) -> Bool[Tensor, "B"]:
        beam_size = self.parents.shape[1]
        rows = (self._first_rows + self.parents).flatten()
        logits = self.decoder.step(self.tokens.flatten(), rows, length)
        ranked = NextTokens(logits, (PAD_ID, BOS_ID)).best(self.log_probability, 2 * beam_size)
        self.sound.logical_and_(~ranked.values[:, 0].isnan() | self.over)
        penalty = self.penalties.index_select(0, emitted)
        first = slice(0, beam_size)
        self._end(ranked.values[:, first], ranked.rows[:, first], ranked.columns[:, first], emitted, penalty)
        # candidates that end go behind all others; every rank occurs once, so the sort has one answer
        count = ranked.columns.shape[1]
        ranks = torch.arange(count, device=logits.device) + count * (ranked.columns == EOS_ID)
        chosen = ranks.sort(dim=1).indices[:, :beam_size]
        self.log_probability.copy_(ranked.values.gather(1, chosen))
        self.parents.copy_(ranked.rows.gather(1, chosen))
        self.tokens.copy_(ranked.columns.gather(1, chosen))
        self.written.index_copy_(0, self.decoder.position, self.tokens.int()[None])
        self.written_parents.index_copy_(0, self.decoder.position, self.parents.int()[None])
        best = self.log_probability[:, 0]
        settled = (self.ended_scores[:, -1] > _NEVER) & (best / penalty <= self.ended_scores[:, self._settled_rank])
        hopeless = best / self.penalties[self.caps] <= self.ended_scores[:, self._n_best - 1]
        return settled | hopeless

    def _end(self, values: Tensor, parents: Tensor, tokens: Tensor, emitted: Tensor, penalty: Tensor) -> None:
        """Move hypotheses (B, k) that end into the finished store."""
        scores = (values / penalty).masked_fill(tokens != EOS_ID, _NEVER)
        best, indices = top(torch.cat([self.ended_scores, scores], dim=1), scores.shape[1])
        self.ended_scores.copy_(best)
        lengths = emitted.expand_as(parents)
        for kept, new in ((self.ended, values), (self.ended_lengths, lengths), (self.ended_slots, parents)):
            kept.copy_(torch.cat([kept, new], dim=1).gather(1, indices))

    def _keep(self, over_now: Bool[Tensor, "B"]) -> None:
        self.final.copy_(torch.where(over_now[:, None], self.log_probability, self.final))
        # what no hypothesis continues enters no store
        self.log_probability.masked_fill_((over_now | self.over)[:, None], _NEVER)

    def _by_sentence(self) -> tuple[str, ...]:
        stores = "final", "ended_scores", "ended", "ended_lengths", "ended_slots"
        return (*super()._by_sentence(), "parents", *stores)

    def _by_step(self) -> tuple[str, ...]:
        return "written", "written_parents"

    def outcome(self, sentences: Int[Tensor, "N"], fed: int) -> Outcome:
        """Return the hypotheses of these sentences after `fed` steps, on the processor; all of them are over."""
        written, parents = (
            steps[:fed].index_select(1, sentences).cpu().long() for steps in (self.written, self.written_parents)
        )
        over_at = self.over_at[sentences].cpu()
        final, scores, ended, lengths, slots = (
            getattr(self, name)[sentences].cpu()
            for name in ("final", "ended_scores", "ended", "ended_lengths", "ended_slots")
        )
        own_slots = torch.arange(slots.shape[1]).expand_as(slots)
        live = Live(_paths(written, parents, own_slots, over_at[:, None].expand_as(slots)), final)
        finished = Finished(_paths(written, parents, slots, lengths - 1), lengths, ended, scores)
        return outcome_of(sentences.cpu(), over_at, live, finished, self.penalties.cpu(), self._n_best)


def _paths(
    written: Int[Tensor, "L N k"], parents: Int[Tensor, "L N k"], slots: Int[Tensor, "N m"], lengths: Int[Tensor, "N m"]
) -> Int[Tensor, "N m L"]:
    """Return the tokens of hypotheses that end in these slots of the steps that gave them their last token."""
    tokens = torch.full((*slots.shape, len(written)), PAD_ID)
    for step in range(len(written) - 1, -1, -1):
        is_part = step < lengths
        tokens[:, :, step] = torch.where(is_part, written[step].gather(1, slots), PAD_ID)
        slots = torch.where(is_part, parents[step].gather(1, slots), slots)
    return tokens
