"""Run beam search in the C kernels, with the cache of a batch; a beam of one is greedy decoding."""

import ctypes
import math
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dikkat_runtime.engine.constraints import length_caps
from dikkat_runtime.engine.hypotheses import Hypothesis, Memory, TokenScores, not_finite
from dikkat_runtime.engine.neighbours import WEIGHT, Neighbours, NeighboursOfBatch
from dikkat_runtime.engine.options import DecodingOptions, beam_of
from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.engine.weights import Weights, WordsOfBatch, decoder_layers
from dikkat_runtime.errors import msg
from dikkat_runtime.native.arrays import ALIGNMENT, Array, address, addresses, aligned, empty, full, side_by_side
from dikkat_runtime.native.library import ACTIVATIONS, Decoder, Linear, Norm, Search, library
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

LANES, PAIR = 16, 32
"""Positions of one block of keys; numbers that a row of bfloat16 is padded to a multiple of."""
FIRST_CAPACITY = 32
"""Target positions that a cache holds before it first grows."""
STEPS_PER_CALL = 64
"""Steps of a search after which it may be interrupted."""
NEVER = float("-inf")

Positions = Callable[[int, int], Array]


class DecoderWeights:
    """The weights that one decoding step computes with, in the layout that C reads."""

    def __init__(
        self,
        settings: ModelSettings,
        weights: Weights,
        embedding: Array,
        embedding_scale: float,
        output: Linear,
        positions: Positions,
        max_length: int | None,
    ) -> None:
        """Read the blocks of a decoder, before the layer `output`; a target has at most `max_length` tokens.

        `positions` gives the rows that are added to the embeddings at positions of a range.
        """
        self.settings, self.positions, self.max_length = settings, positions, max_length
        self.where, self.in_bytes = weights.where, weights.in_bytes
        steps, sources, norms = decoder_layers(weights, settings)
        linears = [*steps, output]
        self.linears, self.sources = (Linear * len(linears))(*linears), (Linear * len(sources))(*sources)
        count = 2 * settings.decoder_layers
        arrays = self.linears, (Norm * len(norms))(*norms), (c_float * count)()
        arrays[2][:] = [settings.inverse_temperature] * count
        self._kept = embedding, arrays
        linears_of, norms_of, betas = map(ctypes.addressof, arrays)  # type: ignore[arg-type]
        self._job = Decoder(
            layers=settings.decoder_layers,
            width=settings.model_dim,
            heads=settings.num_heads,
            head_width=settings.head_dim,
            hidden=settings.feed_forward_dim,
            vocabulary=settings.output_size,
            embedding=address(embedding),
            embedding_scale=embedding_scale,
            post_norm=settings.norm_placement == "post",
            activation=ACTIVATIONS[settings.activation],
            recurrent=settings.decoder_memory == "ssru",
            linears=linears_of,
            norms=norms_of,
            betas=betas,
        )

    def job(self) -> Decoder:
        """Return the C structure without any rows; it must not outlive the weights."""
        return Decoder.from_buffer_copy(self._job)


class DecoderRows:
    """The rows of one batch, one a hypothesis, with their cache."""

    def __init__(
        self,
        weights: DecoderWeights,
        memory: Memory,
        beam_size: int,
        threads: int,
        neighbours: Sequence[Neighbours | None] = (),
        words: WordsOfBatch | None = None,
    ) -> None:
        """`beam_size` rows for each source of `memory`, each of which looks at its `neighbours`.

        They write the `words` of their source alone, or all where that is None.
        """
        self._weights, self._library = weights, library()[0]
        self._beam_size, self._lengths, self._sentences = beam_size, memory.lengths, len(memory.lengths)
        prefix = weights.settings.target_prefix
        self._first, self.forced = (BOS_ID, 0) if prefix is None else (prefix, 1)
        """The token that a search begins with, and how many tokens every target begins with."""
        job = self._job = weights.job()
        job.slots = job.scratch_rows = self._sentences * beam_size
        job.sentences, job.threads = self._sentences, threads
        self._keys: Array
        self._values: Array
        self._writers: Array
        self._adapters = [addresses([getattr(own, part) for own in memory.weights]) for part in ("linears", "sources")]
        job.adapters, job.source_adapters = map(address, self._adapters)
        self._read_source(memory)
        self._near, self._neighbours = neighbours, NeighboursOfBatch.of(neighbours) if neighbours else None
        if self._neighbours is not None:
            self._attach_neighbours(self._neighbours)
        self._listed, job.words = words, None if words is None else words.address
        self._take_rows(range(job.slots), [row // beam_size for row in range(job.slots)])

    def _take_rows(self, slots: Sequence[int], owners: Sequence[int]) -> None:
        self._slots = slots
        numbers = c_int64 * len(slots)
        self._rows = (numbers(*slots), numbers(*owners), numbers())
        self._job.rows = len(slots)
        self._job.row_slots, self._job.row_owners, self._job.begun = map(ctypes.addressof, self._rows)

    def _position(self) -> Array:
        """Return what is added to the embeddings of the next step."""
        return aligned(self._weights.positions(self._job.length, self._job.length + 1)[0])

    def _read_forced(self) -> None:
        """Feed all rows the begin token where a forced token follows it, which the next step feeds."""
        job = self._job
        if self.forced:
            ids, logits = full(job.rows, BOS_ID, np.int64), empty((job.rows, job.vocabulary))
            position = self._position()
            self._hold(1)
            self._library.decoder_step(ctypes.byref(job), address(ids), address(position), address(logits))
            job.length = 1

    def _attach_neighbours(self, neighbours: NeighboursOfBatch) -> None:
        """Let every step look at what was written before in like states."""
        job = self._job
        job.neighbour_states, job.neighbour_rates = address(neighbours.states), address(neighbours.rates)
        job.neighbour_tokens, job.neighbour_starts = address(neighbours.tokens), address(neighbours.starts)
        job.neighbour_weight = math.log(WEIGHT)

    def _read_source(self, memory: Memory) -> None:
        job, (sentences, length, width) = self._job, memory.states.shape
        job.source_length = length + -length % LANES
        self._source_mask = full((sentences, job.source_length), 0, np.uint8)
        for row, tokens in enumerate(memory.lengths):
            self._source_mask[row, :tokens] = 1
        self._source = self._cache(sentences, job.source_length)
        job.source_mask = address(self._source_mask)
        job.source_keys, job.source_values = map(address, self._source)
        states = memory.states
        if width % LANES or states.ctypes.data % ALIGNMENT:  # those of chosen sources may stand anywhere
            states = aligned(np.pad(states, ((0, 0), (0, 0), (0, -width % LANES))))
        if self._library.decoder_read_source(ctypes.byref(job), address(states), length, self._weights.sources):
            raise MemoryError("no memory left to read the source")

    def _hold(self, end: int) -> None:
        """Grow the cache, by doubling it, until it has capacity for `end` positions."""
        job = self._job
        if end <= job.capacity:
            return
        capacity = max(FIRST_CAPACITY, job.capacity)
        while capacity < end:
            capacity *= 2
        keys, values = self._recurrent_cache(capacity) if job.recurrent else self._cache(job.slots, capacity)
        positions_stay = self._weights.in_bytes or job.recurrent
        writers = empty((job.slots, capacity if positions_stay else 0), np.int32)
        if job.length:
            keys[:, :, :, : self._keys.shape[3]] = self._keys
            values[:, :, :, : self._values.shape[3]] = self._values
            writers[:, : self._writers.shape[1]] = self._writers
        self._keys, self._values, self._writers = keys, values, writers
        job.capacity, job.keys, job.values, job.writers = capacity, address(keys), address(values), address(writers)
        # zero, since matrix products read the padding of every row
        self._scratch = full(self._library.decoder_scratch(ctypes.byref(job)), 0.0)
        job.scratch = address(self._scratch)

    def _recurrent_cache(self, capacity: int) -> tuple[Array, Array]:
        """States of recurrent units (L, slots, 1, capacity, D) where the keys of attention are, and no values."""
        shape = self._weights.settings.decoder_layers, self._job.slots, 1
        return empty((*shape, capacity, self._weights.settings.model_dim)), empty((*shape, 0))

    def _cache(self, rows: int, length: int) -> tuple[Array, Array]:
        """Keys (L, rows, H, length / 16, K, 16) and values (L, rows, H, length, K in whole vectors).

        In eight bits both are bfloat16, (L, rows, H, length, K in whole pairs of vectors).
        """
        settings = self._weights.settings
        shape, width = (settings.decoder_layers, rows, settings.num_heads), settings.head_dim
        if self._weights.in_bytes:
            keys, values = empty((2, *shape, length, width + -width % PAIR), np.uint16)
            return keys, values
        return empty((*shape, length // LANES, width, LANES)), empty((*shape, length, width + -width % LANES))


class BeamDecoder(DecoderRows):
    """A beam search that takes all its steps in one call of C."""

    _models: tuple["BeamDecoder", ...] = ()
    """This and the others whose probabilities are averaged; empty where it searches alone."""

    def join(self, others: Sequence["BeamDecoder"]) -> None:
        """Search with the mean of the probabilities of this and `others`, which have the same rows."""
        self._models = (self, *others)
        for one, following in pairwise(self._models):
            one._job.next = ctypes.addressof(following._job)

    def search(self, options: DecodingOptions) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, found by the algorithm that the options stand for.

        Search ends where no live hypothesis, ending now, would outdo the ended one of the options' `early_stop_rank`.
        """
        models = self._models or (self,)
        for one in models:
            one._read_forced()
        limits = [one._weights.max_length for one in models if one._weights.max_length is not None]
        caps = length_caps(self._lengths, options, None, min(limits, default=None))
        penalties = length_penalties(max(caps), options.alpha, self.forced)
        arrays = self._search_arrays(caps, penalties)
        if options.token_scores:
            shape = *arrays["live_tokens"].shape, 3
            arrays |= {name: empty(shape) for name in ("token_scores", "ended_token_scores")}
        hypotheses = self._sound(self._searched(arrays, beam_of(options)[1], options.early_stop_rank))
        return self._scored(hypotheses, arrays["ended_token_scores"]) if options.token_scores else hypotheses

    def _scored(self, results: Sequence[Sequence[Hypothesis]], values: Array) -> list[list[Hypothesis]]:
        """Return hypotheses with the scores of their tokens where the model ended them and no neighbours had a say."""
        scored, first = [list(hypotheses) for hypotheses in results], self.forced
        for number, hypotheses in enumerate(scored):
            for rank, own in enumerate(hypotheses):
                if own.finished and not (self._near and self._near[number] is not None):
                    # a copy does not keep the memory of all others
                    kept = values[number, rank, first : first + len(own.tokens) + 1].copy()
                    hypotheses[rank] = replace(own, token_scores=TokenScores(own.tokens, kept, self._lengths[number]))
        return scored

    def _sound(self, hypotheses: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of sentences. Raises `DataError` where NaN, to which nothing compares, left none."""
        if not all(hypotheses):
            raise not_finite(self._weights.where)
        return hypotheses

    def _searched(self, arrays: dict[str, Array], n_best: int, early_stop_rank: int) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses of each sentence; the search begins with the content of the arrays."""
        penalties = arrays["penalties"]
        longest = len(penalties) - 1
        addresses = {name: address(array) for name, array in arrays.items()}
        marks = {"padding": PAD_ID, "begin": BOS_ID, "end": EOS_ID}
        job = Search(
            beam=self._beam_size, best=n_best, early_stop_rank=early_stop_rank, longest=longest, **marks, **addresses
        )
        for one in self._models or (self,):
            one._job.row_slots, one._job.row_owners = self._job.row_slots, self._job.row_owners
            # nobody looks at the attention and the states of these steps
            one._job.begun, one._job.weights_out, one._job.states_out = self._job.begun, None, None
        while self._job.rows:
            self._go_on(job, len(penalties))
        return _hypotheses(arrays, penalties, n_best, self.forced)

    def _go_on(self, search: Search, most: int) -> None:
        """Take all steps where each thread searches sentences of its own, else `STEPS_PER_CALL` steps."""
        job = self._job
        # the last step feeds the token before a cap, so no position beyond the longest hypothesis is read
        is_per_thread = self._library.searches_per_thread(ctypes.byref(search), ctypes.byref(job))
        end = job.length + most if is_per_thread else min(job.length + STEPS_PER_CALL, most - 1)
        tables = []
        for one in self._models or (self,):
            one._hold(end)
            tables.append(one._weights.positions(job.length, min(end, most - 1)))
            one._job.positions = address(tables[-1])
        if self._library.search_until(ctypes.byref(search), ctypes.byref(job), end):
            raise MemoryError(msg("no memory left to search"))

    def _search_arrays(self, caps: Sequence[int], penalties: Array) -> dict[str, Array]:
        """Return the arrays of a search; the lengths in them count the tokens that are forced."""
        caps = [cap + self.forced for cap in caps]
        if self.forced:
            penalties = aligned(np.concatenate((penalties[: self.forced], penalties)))
        sentences, rows = (self._sentences,), (self._sentences, self._beam_size)
        texts = (*rows, len(penalties) - 1)
        sizes = {"caps": sentences, "over_at": sentences, "tokens": rows, "ended_lengths": rows}
        arrays = side_by_side(PAD_ID, np.int64, **sizes, live_tokens=texts, ended_tokens=texts)
        arrays |= side_by_side(NEVER, live=rows, ended=rows, scores=rows)
        arrays["caps"][:], arrays["tokens"][:], arrays["ended_lengths"][:] = caps, self._first, 1
        arrays["live"][:, 0], arrays["live_tokens"][:, :, : self.forced] = 0.0, self._first
        return {**arrays, "penalties": penalties}


@lru_cache(maxsize=64)
def length_penalties(longest: int, alpha: float, forced: int = 0) -> Array:
    """Return `(length + forced) ** alpha` of every length from 0 to `longest`, in float32, and 1 for none.

    It is the plain normalisation of Wu et al. 2016, section 7; `forced` tokens begin every target, besides its length.
    They are read-only.
    """
    values = aligned(np.array([1.0, *((length + forced) ** alpha for length in range(1, longest + 1))], np.float32))
    values.flags.writeable = False
    return values


def _hypotheses(arrays: dict[str, Array], penalties: Array, n_best: int, forced: int) -> list[list[Hypothesis]]:
    """Return ended hypotheses, then cut ones, each by falling score, at most `n_best`, without the `forced` tokens."""
    columns = [arrays[name][:, :n_best].tolist() for name in ("ended_tokens", "ended_lengths", "ended", "scores")]
    collected = [
        [
            Hypothesis(tuple(tokens[forced : length - 1]), score, log_probability, finished=True)
            for tokens, length, log_probability, score in zip(*sentence, strict=True)
            if score > NEVER
        ]
        for sentence in zip(*columns, strict=True)
    ]
    for number, hypotheses in enumerate(collected):
        if (free := n_best - len(hypotheses)) > 0:
            hypotheses += _unended(arrays, number, penalties, free, forced)
    return collected


def _unended(arrays: dict[str, Array], sentence: int, penalties: Array, count: int, forced: int) -> list[Hypothesis]:
    """Return the best live hypotheses of a sentence that is over."""
    length = int(arrays["over_at"][sentence])
    live = arrays["live"][sentence, :count]
    columns = arrays["live_tokens"][sentence, :count, forced:length], live, live / penalties[length]
    return [
        Hypothesis(tuple(tokens), score, log_probability, finished=False)
        for tokens, log_probability, score in zip(*(column.tolist() for column in columns), strict=True)
        if score > NEVER
    ]
