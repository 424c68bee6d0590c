"""The native engine of encoder-decoders: the C kernels over numpy arrays."""

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float, c_int64, c_void_p
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np

from dikkat_runtime.engine.contract import PLAIN_SEARCH, EngineInfo, SearchRequest
from dikkat_runtime.engine.decoding import BeamDecoder, DecoderWeights
from dikkat_runtime.engine.hypotheses import Hypothesis, Memory, Sentence, not_finite, require_finite
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions, Precision, beam_of, log_normalizers, token_scores, top
from dikkat_runtime.engine.position_tables import SINUSOIDAL, sinusoids
from dikkat_runtime.engine.products import linear
from dikkat_runtime.engine.settings import NATIVE, ModelSettings
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.engine.stepwise import stepwise_search
from dikkat_runtime.engine.weights import Weights, WordRows, encoder_layers
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.native.arrays import Array, address, addresses, aligned, empty, full
from dikkat_runtime.native.library import ACTIVATIONS, INDEX_ERROR, NOT_FINITE, Encoder, Linear, Norm, Rotation, library
from dikkat_runtime.special_tokens import BOS_ID, source_ids

# Take single steps of the native decoder, for algorithms that choose the next tokens in Python.


class StepDecoder(BeamDecoder):
    """A decoder that is fed one token a row at a time.

    A row keeps its keys and values in a slot of its own. When rows are reordered, the first child of a row
    takes over its slot, and only further children need a copy; when sentences leave, nothing is copied.
    """

    def __init__(
        self,
        weights: DecoderWeights,
        memory: Memory,
        beam_size: int,
        threads: int,
        neighbours: Sequence[Neighbours | None] = (),
    ) -> None:
        """`beam_size` rows for each source of `memory`, each of which looks at its `neighbours`."""
        super().__init__(weights, memory, beam_size, threads, neighbours)
        self.limit = weights.max_length
        layers, heads = weights.settings.decoder_layers, weights.settings.num_heads
        # only the weights of the last layer are read
        self._looked_at = full((self._job.slots, heads, self._job.source_length), 0.0)
        self._outputs = (c_void_p * (2 * layers))(*[None] * (2 * layers - 1), address(self._looked_at))
        self._states = full((self._job.slots, weights.settings.model_dim), 0.0)
        self._read_forced()

    @property
    def length(self) -> int:
        return int(self._job.length) - self.forced

    def step(self, tokens: Sequence[int], *, scored: bool = True) -> Array:
        job = self._job
        self._hold(job.length + 1)
        # the begin mark was fed before the token that is forced after it
        fed = [self._first if token == BOS_ID else token for token in tokens]
        ids, position = aligned(np.array(fed), np.int64), self._position()
        job.weights_out, job.states_out = ctypes.addressof(self._outputs), address(self._states)
        logits = empty((job.rows, job.vocabulary if scored else 0))
        written = address(logits) if scored else None
        if self._library.decoder_step(ctypes.byref(job), address(ids), address(position), written):
            raise IndexError("a token lies outside the vocabulary")
        job.length += 1
        return require_finite(logits, self._weights.where)

    def attention(self) -> Array:
        return np.asarray(self._looked_at[: self._job.rows].mean(axis=1))

    def states(self) -> Array:
        return self._states[: self._job.rows].copy()

    def project(self, states: Array) -> Array:
        return require_finite(linear(self._weights.linears[-1], states, self._job.threads), self._weights.where)

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        """Continue with as many rows as `parents`; each continues that row, for its source in `owners`.

        A row continues one of the same source; a source has at most as many rows as at the start.
        """
        wanted = [self._slots[parent] for parent in parents]
        free = sorted(set(range(self._job.slots)).difference(wanted), reverse=True)
        taken, copies = set[int](), list[tuple[int, int]]()
        for row, slot in enumerate(wanted):
            if slot in taken:
                copies.append((slot, free.pop()))
                wanted[row] = copies[-1][1]
            taken.add(slot)
        if copies:
            numbers = c_int64 * len(copies)
            sources, targets = zip(*copies, strict=True)
            self._library.decoder_copy(ctypes.byref(self._job), numbers(*sources), numbers(*targets), len(copies))
        self._take_rows(wanted, owners)

    def rewind(self, length: int) -> None:
        self._take_rows([0], [0])
        self._job.length = length + self.forced

    def finish(
        self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int
    ) -> list[list[Hypothesis]]:
        """Search on from the live hypotheses of `sentences` in C, without constraints; the `n_best` of each."""
        caps = [1] * self._sentences
        for sentence in sentences:
            caps[sentence.number] = sentence.cap
        arrays = self._search_arrays(caps, penalties)
        for sentence in sentences:
            _enter(sentence, arrays, self.forced)
        arrays["tokens"].flat[: self._job.rows] = [row.tokens[-1] for sentence in sentences for row in sentence.rows]
        hypotheses = self._searched(arrays, n_best, early_stop_rank)
        return self._sound([hypotheses[sentence.number] for sentence in sentences])

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        return top(values, k, int(self._job.threads))

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        return log_normalizers(logits, int(self._job.threads))

    def token_scores(self, logits: Array, tokens: Array) -> Array:
        return token_scores(logits, tokens, int(self._job.threads))


def _enter(sentence: Sentence, arrays: dict[str, Array], forced: int) -> None:
    """Write the hypotheses of a sentence, living and ended, into the arrays of a search, after `forced` tokens."""
    number = sentence.number
    for rank, row in enumerate(sentence.rows):
        arrays["live"][number, rank] = row.log_probability
        arrays["live_tokens"][number, rank, forced : forced + len(row.tokens)] = row.tokens
    for rank, (score, hypothesis) in enumerate(sentence.ended):
        arrays["ended_tokens"][number, rank, forced : forced + len(hypothesis.tokens)] = hypothesis.tokens
        arrays["ended_lengths"][number, rank] = len(hypothesis.tokens) + 1 + forced
        arrays["ended"][number, rank], arrays["scores"][number, rank] = hypothesis.log_probability, score


# Encode in one call of C, over texts that stand one after the other, without padding.


Rows = Callable[[int, int], Array | None]
"""From the range of T positions to the rows (T, D) that are added to embeddings."""
Angles = Callable[[int, int], tuple[Array, Array] | None]
"""From the range of T positions to the cosines and sines (T, K/2) of rotary ones."""
_COMPUTED: Mapping[str, tuple[object, ...]] = {
    **{name: values for name, values in NATIVE.items() if name in ModelSettings.__dataclass_fields__},
    "positions": (*SINUSOIDAL, "learned", "rotary"),
    "embedding_norm": (False, True),
    "layer_kinds": (("full",),),
}


def computes_encoder(settings: ModelSettings, group_bits: int = 0) -> bool:
    """Return whether the kernel computes the encoder of a model with these settings; see `Weights.group_bits`."""
    is_known = all(getattr(settings, name) in _COMPUTED[name] for name in _COMPUTED if name != "rotary_frequencies")
    return is_known and not group_bits and settings.num_kv_heads == settings.num_heads


def split_bytes(settings: ModelSettings) -> int:
    """Return the bytes that `EncoderKernel.split` takes beside the weights of a model with these settings."""
    if not computes_encoder(settings):
        return 0
    width, joined, hidden = settings.model_dim, settings.num_heads * settings.head_dim, settings.feed_forward_dim
    shapes = [(3 * joined, width), (width, joined), (hidden, width), (width, hidden)]
    linears = (Linear * 4)(*(Linear(outputs=outputs, inputs=inputs) for outputs, inputs in shapes))
    return settings.encoder_layers * int(library()[0].split_bytes(linears, 4))


class EncoderKernel:
    """Encode texts by all layers in one call of C; a text has the same bits in any company."""

    def __init__(
        self,
        settings: ModelSettings,
        weights: Weights,
        embedding: Array,
        scale: float,
        positions: Rows,
        angles: Angles | None = None,
        segment: Array | None = None,
    ) -> None:
        """Read the blocks of an encoder; rows of `embedding` (V, D) are scaled, and a `segment` (D,) added to them."""
        self._settings, self._weights, self._kept = settings, weights, (embedding, segment)
        self._positions, self._angles = positions, angles
        linears, norms = encoder_layers(weights, settings)
        if settings.embedding_norm:
            norms.append(weights.norm("embedding_norm", settings.model_dim, settings.norm_eps))
        self.linears, self._norms = (Linear * len(linears))(*linears), (Norm * len(norms))(*norms)
        self._betas = (c_float * settings.encoder_layers)(*[settings.inverse_temperature] * settings.encoder_layers)
        # without any sentences
        self._job = Encoder(
            layers=settings.encoder_layers,
            width=settings.model_dim,
            heads=settings.num_heads,
            head_width=settings.head_dim,
            hidden=settings.feed_forward_dim,
            post_norm=settings.norm_placement == "post",
            activation=ACTIVATIONS[settings.activation],
            vocabulary=settings.vocab_size,
            embedding=address(embedding),
            embedding_scale=scale,
            linears=ctypes.addressof(self.linears),
            norms=ctypes.addressof(self._norms),
            betas=ctypes.addressof(self._betas),
            segment=address(segment),
            embedding_norm=ctypes.addressof(self._norms[-1]) if settings.embedding_norm else None,
        )

    def split(self) -> None:
        """Multiply by float32 weights in three parts of bfloat16, where the processor has tiles for these."""
        self._split = empty(library()[0].split_bytes(self.linears, len(self.linears)), np.uint8)
        library()[0].split_weights(self.linears, len(self.linears), address(self._split))

    def run(
        self,
        rows: Sequence[Sequence[int]],
        *,
        pools: bool = False,
        threads: int | None = None,
        adapters: Sequence[Any] = (),
    ) -> Array:
        """Return the states (B, S, D) of rows of ids, none empty, with zeros after each row, or their means (B, D).

        A row has linear layers of its own in `adapters`. Raises `DataError` for an id outside the vocabulary and for a
        row beyond the table of learned positions.
        """
        lengths = [len(row) for row in rows]
        longest, width = max(lengths), self._settings.model_dim
        starts = (c_int64 * (len(lengths) + 1))(0, *accumulate(lengths))
        # all ids one after the other, no padding
        ids = np.fromiter(chain.from_iterable(rows), np.int64, starts[-1])
        table, linears = self._positions(0, longest), addresses(adapters)
        angles = self._angles(0, longest) if self._angles is not None else None
        job = Encoder.from_buffer_copy(self._job)
        job.sentences, job.longest, job.threads = len(rows), longest, threads or self._weights.threads
        job.starts, job.ids, job.positions, job.pools = ctypes.addressof(starts), address(ids), address(table), pools
        job.rotation = Rotation(*map(address, angles or (None, None)), longest)
        job.adapters = address(linears)
        output = empty((len(rows), width)) if pools else full((len(rows), longest, width), 0.0)
        code = library()[0].encoder_run(ctypes.byref(job), address(output))
        if code == INDEX_ERROR:
            raise DataError("a token must lie between 0 and {vocab_size}", self._settings.vocab_size - 1)
        if code == NOT_FINITE:
            raise not_finite(self._weights.where)
        if code:
            raise MemoryError(msg("no memory left to encode"))
        return output


class NativeEngine:
    """An engine that encodes and searches with the weights of one translator; safe to use from several threads."""

    def __init__(self, settings: ModelSettings, weights: Weights, *, shortlist: Shortlist | None = None) -> None:
        """Compute with these weights and as many threads as they name.

        With a `shortlist`, search writes its words alone, but not under constraints or limits on repetition.
        Raises `DataError` for a weight that is missing, left over, of another shape or not finite, and `UsageError`
        where the kernels cannot run.
        """
        precision: Precision = "int8" if weights.in_bytes else "float32"
        self.info = EngineInfo("native", precision, weights.threads, library()[1], has_shortlist=shortlist is not None)
        self.settings = settings
        self._learned: Array | None = None
        self._table: Array = empty((0, settings.model_dim))
        self._read_embeddings(weights)
        self._encoder = EncoderKernel(settings, weights, self._source, self._scale, self.positions)
        bias = weights.array("output_bias", settings.output_size) if settings.output_bias else None
        output = weights.matrix(self._output, bias)
        self._decoder = DecoderWeights(
            settings,
            weights,
            self._target,
            self._scale,
            output,
            self.positions,
            None if self._learned is None else len(self._learned) - (settings.target_prefix is not None),
        )
        self._shortlist, self._words = shortlist, None if shortlist is None else WordRows(output, bias)
        weights.check_all_used()
        # the arrays must live as long as C reads them
        self.weights: Weights = weights
        of_layers = all(name.startswith(("encoder.blocks.", "decoder.blocks.")) for name in weights.used)
        self.mixes_by = id(weights.base if of_layers and weights.base is not None else weights), shortlist is None
        """Equal for engines whose sources can share a batch: they differ in adapters of one base."""

    def encode(
        self, sources: Sequence[Sequence[int]], *, threads: int | None = None, engines: Sequence["NativeEngine"] = ()
    ) -> Memory:
        """Encode sources (ids without an end mark, none empty) with `threads` threads, by default the engine's.

        With `engines`, of which all `mixes_by` are equal, each source is read and translated by its own one.
        Raises `DataError` for a source beyond the table of learned positions or an id outside the vocabulary.
        """
        rows = [source_ids(source, self.settings.add_source_eos) for source in sources]
        states = self._encoder.run(rows, threads=threads, adapters=[engine._encoder.linears for engine in engines])
        lists = [engine._shortlist for engine in engines or [self] * len(rows)]
        words = tuple(own.of(source) for own, source in zip(lists, sources, strict=True) if own is not None)
        return Memory(states, tuple(map(len, rows)), words or None, tuple(engine._decoder for engine in engines))

    def search(
        self, memory: Memory, options: DecodingOptions, asked: SearchRequest = PLAIN_SEARCH
    ) -> list[list[Hypothesis]]:
        if asked.needs_steps(options):
            threads = asked.threads or self.info.threads
            begin = partial(StepDecoder, self._decoder, memory, threads=threads, neighbours=asked.neighbours)
            return stepwise_search(begin, memory, options, asked)
        return self.search_decoder(memory, options, asked).search(options)

    def search_decoder(self, memory: Memory, options: DecodingOptions, asked: SearchRequest) -> BeamDecoder:
        """Return a decoder that takes all steps of a search in one call of C."""
        (beam_size, _), neighbours, words = beam_of(options), asked.neighbours, None
        if self._words is not None and memory.words is not None:
            # a sentence with neighbours may write all words, since these hold any
            near = [one is not None for one in neighbours or [None] * len(memory.words)]
            words = self._words.of(memory.words, beam_size + 1, near)
        return BeamDecoder(self._decoder, memory, beam_size, asked.threads or self.info.threads, neighbours, words)

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> StepDecoder:
        """Return a decoder of single steps over encoded sources, with `beam_size` rows for each."""
        return StepDecoder(self._decoder, memory, beam_size, self.info.threads, neighbours)

    def positions(self, start: int, end: int) -> Array:
        """Return the rows (end - start, D) that are added to the embeddings at these positions."""
        if self._learned is not None:
            if end > len(self._learned):
                raise DataError(
                    "a sentence of {tokens} tokens does not fit into {positions} learned positions; shorten it"
                ).fill(end, len(self._learned))
            return self._learned[start:end]
        if end > len(self._table):
            self._table = aligned(sinusoids(2 * end, self.settings.model_dim, self.settings.positions))
        return self._table[start:end]

    def _read_embeddings(self, weights: Weights) -> None:
        settings = self.settings
        shape = settings.output_size, settings.model_dim
        self._scale = math.sqrt(settings.model_dim) if settings.scale_embeddings else 1.0
        self._output = weights.array("output_weight", *shape)
        self._source = self._target = self._output
        if settings.source_matrix != "output_weight":
            self._source = weights.array(settings.source_matrix, settings.vocab_size, settings.model_dim)
        if settings.target_matrix != "output_weight":
            self._target = weights.array(settings.target_matrix, *shape)
        if settings.positions == "learned":
            self._learned = weights.array("positions.embedding", settings.max_positions, settings.model_dim)
