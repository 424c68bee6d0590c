"""Take single steps of the native decoder, for algorithms that choose the next tokens in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p

import numpy as np

from dikkat_runtime.engine.contract import Hypothesis, Memory
from dikkat_runtime.engine.decoding import BeamDecoder, DecoderWeights, Positions
from dikkat_runtime.engine.hypotheses import Sentence
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.outputs import require_finite
from dikkat_runtime.engine.ranking import log_normalizers, top
from dikkat_runtime.native.arrays import Array, address, aligned, empty, full
from dikkat_runtime.special_tokens import BOS_ID


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
        positions: Positions,
        limit: int | None = None,
        neighbours: Sequence[Neighbours | None] = (),
    ) -> None:
        """`positions` gives the rows that are added to the embeddings at positions of a range.

        There are at most `limit`.
        """
        super().__init__(weights, memory, beam_size, threads, neighbours)
        self._positions, self.limit = positions, limit
        self._slots = list(range(self._job.slots))
        layers, heads = weights.settings.decoder_layers, weights.settings.num_heads
        # only the weights of the last layer are read
        self._looked_at = full((self._job.slots, heads, self._job.source_length), 0.0)
        self._outputs = (c_void_p * (2 * layers))(*[None] * (2 * layers - 1), address(self._looked_at))
        self._job.weights_out = ctypes.addressof(self._outputs)
        self._states = full((self._job.slots, weights.settings.model_dim), 0.0)
        self._job.states_out = address(self._states)
        self._read_forced(positions)

    @property
    def length(self) -> int:
        """The number of tokens that every row was fed so far."""
        return int(self._job.length) - self._forced

    @property
    def forced(self) -> int:
        """The number of tokens that every target begins with, which are fed before."""
        return self._forced

    def step(self, tokens: Sequence[int]) -> Array:
        """Return logits (R, V) of the token that follows `tokens`, one of the vocabulary for each row."""
        job = self._job
        if job.length == job.capacity:
            self._grow(2 * job.capacity)
        # the begin mark was fed before the token that is forced behind it
        fed = [self._first if token == BOS_ID else token for token in tokens]
        ids, position = aligned(np.array(fed), np.int64), aligned(self._positions(job.length, job.length + 1)[0])
        logits = empty((job.rows, job.vocabulary))
        if self._library.decoder_step(ctypes.byref(job), address(ids), address(position), address(logits)):
            raise IndexError("a token lies outside the vocabulary")
        job.length += 1
        return require_finite(logits, self._weights.where)

    def attention(self) -> Array:
        """Return the attention of the last step over the source, (R, S): the mean of the heads of the last layer."""
        return np.asarray(self._looked_at[: self._job.rows].mean(axis=1))

    def states(self) -> Array:
        """The states (R, D) that the last logits were made of."""
        return self._states[: self._job.rows].copy()

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
        """Go back to one row of one source, fed `length` tokens, which all rows have in common."""
        self._take_rows([0], [0])
        self._job.length = length + self._forced

    def finish(
        self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int
    ) -> list[list[Hypothesis]]:
        """Search on from the live hypotheses of `sentences` in C, without constraints; the `n_best` of each."""
        caps = [1] * self._sentences
        for sentence in sentences:
            caps[sentence.number] = sentence.cap
        arrays = self._search_arrays(caps, penalties)
        for sentence in sentences:
            _enter(sentence, arrays, self._forced)
        arrays["tokens"][: self._job.rows] = [row.tokens[-1] for sentence in sentences for row in sentence.rows]
        # nobody looks at the attention and the states of these steps
        self._job.weights_out = self._job.states_out = None
        hypotheses = self._searched(arrays, n_best, early_stop_rank, self._positions)
        self._job.weights_out, self._job.states_out = ctypes.addressof(self._outputs), address(self._states)
        return self._sound([hypotheses[sentence.number] for sentence in sentences])

    def _take_rows(self, slots: list[int], owners: Sequence[int]) -> None:
        self._slots = slots
        numbers = c_int64 * len(slots)
        self._rows = (numbers(*slots), numbers(*owners), numbers())
        self._job.rows = len(slots)
        self._job.row_slots, self._job.row_owners, self._job.begun = map(ctypes.addressof, self._rows)

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        """Return the `k` largest of each row (N, M) and their indices, the lowest index first among equals."""
        return top(values, k, int(self._job.threads))

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        """Return the largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
        return log_normalizers(logits, int(self._job.threads))


def _enter(sentence: Sentence, arrays: dict[str, Array], forced: int) -> None:
    """Write the hypotheses of a sentence, living and ended, into the arrays of a search, behind `forced` tokens."""
    number = sentence.number
    for rank, row in enumerate(sentence.rows):
        arrays["live"][number, rank] = row.log_probability
        arrays["live_tokens"][number, rank, forced : forced + len(row.tokens)] = row.tokens
    for rank, (score, hypothesis) in enumerate(sentence.ended):
        arrays["ended_tokens"][number, rank, forced : forced + len(hypothesis.tokens)] = hypothesis.tokens
        arrays["ended_lengths"][number, rank] = len(hypothesis.tokens) + 1 + forced
        arrays["ended"][number, rank], arrays["scores"][number, rank] = hypothesis.log_probability, score
