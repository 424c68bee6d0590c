"""The native engine of encoder-decoders: the C kernels over numpy arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from ctypes import c_float, c_int64
from itertools import accumulate

import numpy as np

from dikkat_runtime.engine.constraints import Constraint, length_caps, rows_of_beam
from dikkat_runtime.engine.contract import EngineInfo, Hypothesis, Memory
from dikkat_runtime.engine.decoding import BeamDecoder, DecoderWeights
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision, SamplingOptions
from dikkat_runtime.engine.outputs import require_finite
from dikkat_runtime.engine.positions import sinusoids
from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.engine.steps import StepDecoder
from dikkat_runtime.engine.stepwise import sample, stepwise_beam_search
from dikkat_runtime.engine.weights import Weights, decoder_layers, encoder_layers
from dikkat_runtime.engine.word_rows import WordRows, WordsOfBatch
from dikkat_runtime.errors import DataError
from dikkat_runtime.messages import msg
from dikkat_runtime.native.arrays import Array, address, aligned, empty
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.native.library import library
from dikkat_runtime.native.structures import ACTIVATIONS, Encoder, Linear, Norm
from dikkat_runtime.special_tokens import source_ids


class NativeEngine:
    """An engine that encodes and searches with the weights of one translator; safe to use from several threads."""

    def __init__(
        self,
        settings: ModelSettings,
        arrays: Mapping[str, Array],
        where: str,
        *,
        precision: Precision = "float32",
        threads: int | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Take over `arrays` by their names; `where` is their file, for messages.

        With a `shortlist`, search writes its words alone, but not under constraints or limits on repetition.
        Raises `DataError` for a weight that is missing, left over, of another shape or not finite, and `UsageError`
        where the kernels cannot run.
        """
        threads = available_threads() if threads is None else threads
        self.info = EngineInfo("native", precision, threads, library()[1], has_shortlist=shortlist is not None)
        self.settings = settings
        self._learned: Array | None = None
        self._table: Array = empty((0, settings.model_dim))
        weights = Weights(arrays, where, precision == "int8", threads)
        self._read_embeddings(weights)
        linears, norms = encoder_layers(weights, settings)
        self._linears, self._norms = (Linear * len(linears))(*linears), (Norm * len(norms))(*norms)
        self._betas = (c_float * settings.encoder_layers)(*[settings.inverse_temperature] * settings.encoder_layers)
        steps, sources, norms = decoder_layers(weights, settings)
        bias = weights.array("output_bias", settings.output_size) if settings.output_bias else None
        output = weights.matrix(self._output, bias)
        self._decoder = DecoderWeights(
            settings, self._target, self._scale, [*steps, output], sources, norms, precision, where
        )
        self._shortlist, self._words = shortlist, None if shortlist is None else WordRows(output, bias)
        weights.check_all_used()
        # the arrays must live as long as C reads them
        self._weights = weights

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        """Encode sources (ids without an end mark, none empty) with `threads` threads, by default the engine's.

        Raises `DataError` for a source beyond the table of learned positions or an id outside the vocabulary.
        """
        rows = [source_ids(source, self.settings.add_source_eos) for source in sources]
        lengths = tuple(map(len, rows))
        ids = np.array([token for row in rows for token in row], np.int64)
        if ids.min() < 0 or ids.max() >= self.settings.vocab_size:
            raise DataError("a token must lie between 0 and {vocab_size}").fill(self.settings.vocab_size - 1)
        starts = (c_int64 * (len(lengths) + 1))(0, *accumulate(lengths))
        table = self.positions(0, max(lengths))
        states = empty((len(ids), self.settings.model_dim))
        # (V, D)[(N,)] -> (N, D): all tokens one behind the other, no padding
        np.multiply(self._source[ids], np.float32(self._scale), out=states)
        states += table[np.concatenate([np.arange(length) for length in lengths])]
        job = self._encoder(starts, len(lengths), threads or self.info.threads)
        if library()[0].encoder_run(ctypes.byref(job), address(states)):
            raise MemoryError(msg("no memory left to encode"))
        words = None if self._shortlist is None else tuple(map(self._shortlist.of, sources))
        return Memory(_padded(require_finite(states, self._weights.where), lengths), lengths, words)

    def search(
        self,
        memory: Memory,
        options: DecodingOptions,
        *,
        numbers: Sequence[int] | None = None,
        threads: int | None = None,
        constraints: Sequence[Constraint | None] | None = None,
        neighbours: Sequence[Neighbours | None] = (),
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first; see `Engine`."""
        caps = length_caps(memory.lengths, options, constraints)
        # no hypothesis may be longer than the table of learned positions
        if self._learned is not None:
            longest = len(self._learned) - (self.settings.target_prefix is not None)
            caps = [min(cap, longest) for cap in caps]
        threads = threads or self.info.threads
        if isinstance(options, SamplingOptions):
            steps = StepDecoder(self._decoder, memory, 1, threads, self.positions)
            numbers = range(len(caps)) if numbers is None else numbers
            return [[hypothesis] for hypothesis in sample(steps, options, caps, numbers)]
        beam_size, n_best = (options.beam_size, options.n_best) if isinstance(options, BeamOptions) else (1, 1)
        if options.limits_repetition or constraints is not None:
            beam_size = rows_of_beam(beam_size, constraints)
            steps = StepDecoder(self._decoder, memory, beam_size, threads, self.positions, neighbours=neighbours)
            return stepwise_beam_search(steps, options, beam_size, n_best, caps, constraints)
        words = self._words_of(memory, beam_size, neighbours)
        decoder = BeamDecoder(self._decoder, memory, beam_size, threads, neighbours, words)
        return decoder.search(options.alpha, n_best, options.early_stop_rank, caps, self.positions)

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> StepDecoder:
        """Return a decoder of single steps over encoded sources, with `beam_size` rows for each."""
        forced = self.settings.target_prefix is not None
        limit = None if self._learned is None else len(self._learned) - forced
        return StepDecoder(self._decoder, memory, beam_size, self.info.threads, self.positions, limit, neighbours)

    def _words_of(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None]) -> WordsOfBatch | None:
        """Return what a search may write; a sentence with neighbours may write all words, since these hold any."""
        if self._words is None or memory.words is None:
            return None
        near = neighbours or [None] * len(memory.words)
        return self._words.of(memory.words, beam_size + 1, [one is not None for one in near])

    def positions(self, start: int, end: int) -> Array:
        """Return the rows (end - start, D) that are added to the embeddings at these positions."""
        if self._learned is not None:
            if end > len(self._learned):
                raise DataError(
                    "a sentence of {end} tokens does not fit into {count} learned positions; shorten it"
                ).fill(end, len(self._learned))
            return self._learned[start:end]
        if end > len(self._table):
            self._table = sinusoids(2 * end, self.settings.model_dim, self.settings.positions)
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

    def _encoder(self, starts: ctypes.Array[c_int64], sentences: int, threads: int) -> Encoder:
        settings = self.settings
        return Encoder(
            layers=settings.encoder_layers,
            width=settings.model_dim,
            heads=settings.num_heads,
            head_width=settings.head_dim,
            hidden=settings.feed_forward_dim,
            post_norm=settings.norm_placement == "post",
            activation=ACTIVATIONS[settings.activation],
            linears=ctypes.addressof(self._linears),
            norms=ctypes.addressof(self._norms),
            betas=ctypes.addressof(self._betas),
            sentences=sentences,
            starts=ctypes.addressof(starts),
            threads=threads,
        )


def _padded(states: Array, lengths: Sequence[int]) -> Array:
    """Return states (N, D) as (B, S, D), with zeros behind each source."""
    padded = aligned(np.zeros((len(lengths), max(lengths), states.shape[1]), np.float32))
    start = 0
    for row, length in enumerate(lengths):
        padded[row, :length] = states[start : start + length]
        start += length
    return padded
