"""Greedy decoding and beam search that never wait for the host: each is a state in fixed buffers and a step on it.

The rules are those of `dikkat.torch_engine.beam_search`, and so are the results. Sentences that are over stay in the
batch until the caller takes the others out. Tokens and parents of every step are kept; hypotheses are put together at
the end.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.kernels.rotary import Rotation
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import CrossAttendingBlock, DecoderBlock, PositionedDecoderBlock, RecurrentDecoderBlock
from dikkat.nn.cache import StaticCache, StaticState
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import Positions
from dikkat.nn.positions import LearnedPositions, NoPositions
from dikkat.nn.scorers import DotProductScorer
from dikkat.nn.sliding_window import Window
from dikkat.torch_engine.beam_search import Finished, Live, outcome_of
from dikkat.torch_engine.ranking import NextTokens, top
from dikkat.torch_engine.stepper import Outcome, length_penalties
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

# A decoder that takes a step by the same operations at every position, in buffers that never move.


def why_not_static(model: EncoderDecoder) -> str:
    """Return why `StaticDecoder` cannot compute the model; empty where it can."""
    if model.target_prefix is not None:
        return "every target begins with a prefix"
    if model.target_positions is not None:
        return "the target has positions of its own"
    for block in model.decoder.blocks:
        if type(block) not in (DecoderBlock, PositionedDecoderBlock, RecurrentDecoderBlock):
            return "a decoder block is of another kind"
        for part in block.modules():
            if isinstance(part, MultiHeadAttention) and not isinstance(part.comparison, DotProductScorer):
                return "attention has a bias for distances, or a score or selection of its own"
    return ""


class _Layer:
    """Buffers of one decoder block: what was written, and keys and values of the source."""

    def __init__(self, block: CrossAttendingBlock, sentences: int, rows: int, sources: int, table: Tensor) -> None:
        self.block = block
        self.cross: MultiHeadAttention = block.cross_attention
        cross, (capacity, model_dim) = self.cross, table.shape
        self.memory_key = table.new_zeros(sentences, cross.num_kv_heads, sources, cross.head_dim)
        self.memory_value = torch.zeros_like(self.memory_key)
        self.positions: Tensor | None = None
        if isinstance(block, PositionedDecoderBlock):
            self.positions = _position_table(block.positions, capacity, table)
        self.rotations: Tensor | None = None
        if isinstance(block, RecurrentDecoderBlock):
            self.cache: StaticCache | StaticState = StaticState(rows, model_dim, table)
            return
        attention = self.attention
        self.cache = StaticCache(capacity, rows, attention.num_kv_heads, attention.head_dim, table)
        if attention.rotary is not None:
            like = table.new_empty(1, 1, capacity, attention.head_dim)
            self.rotations = attention.rotary.rotation(like).table

    @property
    def attention(self) -> MultiHeadAttention:
        """The self-attention of the block, which a recurrent one has not."""
        return cast(DecoderBlock, self.block).self_attention

    @property
    def window(self) -> Window | None:
        """How far the self-attention of the block sees; None for everywhere."""
        return None if isinstance(self.block, RecurrentDecoderBlock) else self.attention.window


class StaticDecoder:
    """The decoder of a model for B sentences of up to S source tokens, with `rows` hypotheses of up to C tokens each.

    The weights are those of the model; `why_not_static` says which models this computes.
    """

    def __init__(self, model: EncoderDecoder, sentences: int, rows: int, sources: int, capacity: int) -> None:
        """Set up the buffers, in the type and on the device of the model's weights."""
        self.shape = sentences, rows
        self.sources, self.capacity = sources, capacity
        like = model.output_weight
        self._model = model
        self._table = _position_table(model.positions, capacity, like)
        blocks = cast(list[CrossAttendingBlock], model.decoder.blocks)
        self.layers = [_Layer(block, sentences, sentences * rows, sources, self._table) for block in blocks]
        self.position = torch.zeros(1, dtype=torch.int64, device=like.device)
        self._columns = torch.arange(capacity, device=like.device)
        self._source_bias = like.new_zeros(sentences, 1, 1, sources)
        # half of the lowest number, since it is added to a score and must stay finite
        self._hidden = torch.finfo(like.dtype).min / 2

    def start(self, memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> None:
        """Begin with sources that are read; `mask` is True at real tokens, of which every source has one."""
        self.position.zero_()
        self._source_bias[:, 0, 0] = torch.where(mask, 0.0, self._hidden)
        for layer in self.layers:
            projected = layer.cross.project_memory(memory)
            layer.memory_key.copy_(projected.key)
            layer.memory_value.copy_(projected.value)
            layer.cache.clear()

    def copy_sentences(
        self, other: "StaticDecoder", sentences: Int[Tensor, "B"], rows: Int[Tensor, "R"], fed: int
    ) -> None:
        """Go on with these sentences of another decoder, whose rows, `rows`, were fed `fed` tokens."""
        self.position.copy_(other.position)
        torch.index_select(other._source_bias, 0, sentences, out=self._source_bias)
        for layer, source in zip(self.layers, other.layers, strict=True):
            torch.index_select(source.memory_key, 0, sentences, out=layer.memory_key)
            torch.index_select(source.memory_value, 0, sentences, out=layer.memory_value)
            cast(Any, layer.cache).copy_rows(source.cache, rows, fed)

    def step(self, tokens: Int[Tensor, "R"], parents: Int[Tensor, "R"] | None, length: int) -> Float[Tensor, "R V"]:
        """Return the logits of the token after `tokens`, each of which continues the row in `parents`, or its own.

        At most `length` tokens were fed, with these. `position` is theirs; moving it on is left to the caller.
        """
        model = self._model
        x = model.target_embedding(tokens[:, None]) + self._table.index_select(0, self.position)
        x = model.embedding_norm(x)
        biases = {window: self._bias(window, length) for window in {layer.window for layer in self.layers}}
        for layer in self.layers:
            if parents is not None:
                layer.cache.reorder(parents, length)
            x = self._block_step(layer, x, biases[layer.window], length)
        return model.project(model.decoder.final_norm(x)[:, 0])

    def _block_step(self, layer: _Layer, x: Tensor, bias: Tensor, length: int) -> Tensor:
        block = layer.block
        if layer.positions is not None:
            x = x + layer.positions.index_select(0, self.position)
        x = block.self_residual(x, lambda y: self._first(layer, y, bias, length))
        x = block.cross_residual(x, lambda y: self._attend_memory(layer, y))
        return cast(Tensor, block.feed_forward_residual(x, block.feed_forward))

    def _first(self, layer: _Layer, x: Tensor, bias: Tensor, length: int) -> Tensor:
        """The sub-layer that knows what was written."""
        if isinstance(layer.cache, StaticState):
            return cast(RecurrentDecoderBlock, layer.block).recurrence.step(x, layer.cache)
        q, k, v = layer.attention.project_self(x)
        if layer.rotations is not None:
            rotation = Rotation(layer.rotations.index_select(1, self.position), None)
            q, k = rotation(q), rotation(k)
        layer.cache.append(k, v, self.position)
        return _attended(layer.attention, q, *layer.cache.first(length), bias)

    def _attend_memory(self, layer: _Layer, x: Float[Tensor, "R 1 D"]) -> Float[Tensor, "R 1 D"]:
        # (B * rows, 1, D) -> (B, rows, D): no key or value is copied per hypothesis
        query = layer.cross.project_query(x.view(*self.shape, -1))
        return _attended(layer.cross, query, layer.memory_key, layer.memory_value, self._source_bias).view(x.shape)

    def _bias(self, window: Window | None, length: int) -> Float[Tensor, "1 1 1 L"]:
        """Return 0 at the positions that the newest sees, and a very low number at the others."""
        columns = self._columns[:length]
        visible = columns <= self.position
        if window is not None:
            is_global = (columns < window.global_tokens) | (self.position < window.global_tokens)
            visible = visible & ((self.position - columns <= window.size) | is_global)
        return torch.where(visible, 0.0, self._hidden).to(self._source_bias.dtype)[None, None, None]


def _attended(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """The output (B, T, D) of queries (B, H, T, K) over keys and values (B, G, S, K)."""
    comparison = cast(DotProductScorer, attention.comparison)
    scale = inverse_temperature(query, comparison.score, comparison.beta)
    heads, groups, targets = query.shape[1], key.shape[1], query.shape[2]
    # heads that share keys and values are as good as more queries: (B, H, T, K) -> (B, G, H / G * T, K)
    query = query.reshape(query.shape[0], groups, heads // groups * targets, query.shape[3])
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
    # (B, G, H / G * T, K) -> (B, H, T, K) -> (B, T, H * K)
    output = output.reshape(output.shape[0], heads, targets, output.shape[3]).transpose(1, 2).flatten(2)
    projected: Tensor = attention.out_projection(output)
    return projected


def _position_table(positions: Positions | nn.Module, length: int, like: Tensor) -> Float[Tensor, "C D"]:
    """Return what is added to embeddings at positions below `length`; the last learned row stands for all after it."""
    width = like.shape[1]
    if isinstance(positions, NoPositions):
        return like.new_zeros(length, width)
    reached = min(length, positions.max_positions) if isinstance(positions, LearnedPositions) else length
    table: Tensor = positions(like.new_zeros(1, reached, width))[0]
    return torch.cat([table, table[-1:].expand(length - reached, width)])


_NEVER = float("-inf")


class StaticSearch(ABC):
    """Base of the ways to search: the state of B sentences of a decoder, of `rows` hypotheses each."""

    _by_sentence: tuple[str, ...] = ("tokens", "over", "sound", "over_at", "caps", "log_probability")
    _by_step: tuple[str, ...] = ("written",)

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

    def copy_sentences(self, other: "StaticSearch", sentences: Int[Tensor, "B"], fed: int) -> None:
        """Go on with these sentences of another search, which has taken `fed` steps."""
        rows = self.decoder.shape[1]
        numbers = (sentences[:, None] * rows + torch.arange(rows, device=sentences.device)).flatten()
        self.decoder.copy_sentences(other.decoder, sentences, numbers, fed)
        self.penalties.copy_(other.penalties)
        for name in self._by_sentence:
            torch.index_select(getattr(other, name), 0, sentences, out=getattr(self, name))
        for name in self._by_step:
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


class GreedySearch(StaticSearch):
    """Greedy decoding; see `dikkat.torch_engine.strategies`."""

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
        """Leave all as it is: later steps write after the end, and add nothing to the log-probability."""

    def outcome(self, sentences: Int[Tensor, "N"], fed: int) -> Outcome:
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

    _stores = ("final", "ended_scores", "ended", "ended_lengths", "ended_slots")
    _by_sentence = (*StaticSearch._by_sentence, "parents", *_stores)
    _by_step = ("written", "written_parents")

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
        # candidates that end go after all others; every rank occurs once, so the sort has one answer
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

    def outcome(self, sentences: Int[Tensor, "N"], fed: int) -> Outcome:
        written, parents = (
            steps[:fed].index_select(1, sentences).cpu().long() for steps in (self.written, self.written_parents)
        )
        over_at = self.over_at[sentences].cpu()
        final, scores, ended, lengths, slots = (getattr(self, name)[sentences].cpu() for name in self._stores)
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
