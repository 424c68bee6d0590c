"""Single steps of the native decoder, for whoever chooses the next tokens otherwise than beam search in C does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p

import numpy as np

from dikkat_runtime.engine.contract import Memory
from dikkat_runtime.engine.decoding import DecoderRows, DecoderWeights, Positions
from dikkat_runtime.engine.ranking import log_normalizers, top
from dikkat_runtime.native.arrays import Array, address, aligned, empty, full


class StepDecoder(DecoderRows):
    """Feeds every row one token at a time.

    A row keeps its keys and values in a slot of its own. When rows are reordered, the first row that goes on from
    another takes over its slot, and only the further ones need a copy; when sentences leave, nothing moves.
    """

    def __init__(
        self,
        weights: DecoderWeights,
        memory: Memory,
        beam_size: int,
        threads: int,
        positions: Positions,
        limit: int | None = None,
    ) -> None:
        """`positions` gives what is added to the embeddings of a range of positions; there are at most `limit`."""
        super().__init__(weights, memory, beam_size, threads)
        self._positions, self.limit = positions, limit
        self._slots = list(range(self._job.slots))
        layers, heads = weights.settings.decoder_layers, weights.settings.num_heads
        # those of the last layer alone are asked for
        self._looked_at = full((self._job.slots, heads, self._job.source_length), 0.0)
        self._outputs = (c_void_p * (2 * layers))(*[None] * (2 * layers - 1), address(self._looked_at))
        self._job.weights_out = ctypes.addressof(self._outputs)

    @property
    def length(self) -> int:
        """Tokens that every row was fed so far."""
        return int(self._job.length)

    def step(self, tokens: Sequence[int]) -> Array:
        """Logits (R, V) of the token that follows `tokens`, one of the vocabulary for each row."""
        job = self._job
        if job.length == job.capacity:
            self._grow(2 * job.capacity)
        ids, position = aligned(np.array(tokens), np.int64), aligned(self._positions(job.length, job.length + 1)[0])
        logits = empty((job.rows, job.vocabulary))
        if self._library.decoder_step(ctypes.byref(job), address(ids), address(position), address(logits)):
            raise IndexError("a token lies outside the vocabulary")
        job.length += 1
        return logits

    def attention(self) -> Array:
        """Where the last step looked in the source, (R, S): the last layer's cross-attention, the mean of its heads."""
        return np.asarray(self._looked_at[: self._job.rows].mean(axis=1))

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        """From now on there are as many rows as `parents`; each goes on from that row, for its source in `owners`.

        A row goes on from one of the same source; a source has at most as many rows as in the beginning.
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
        """Go back to one row of one source, fed `length` tokens, from which all rows have gone on since."""
        self._take_rows([0], [0])
        self._job.length = length

    def _take_rows(self, slots: list[int], owners: Sequence[int]) -> None:
        self._slots = slots
        numbers = c_int64 * len(slots)
        self._rows = (numbers(*slots), numbers(*owners), numbers())
        self._job.rows = len(slots)
        self._job.row_slots, self._job.row_owners, self._job.begun = map(ctypes.addressof, self._rows)

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        """The `k` largest of each row (N, M) and where they stand, the lowest index first among equals."""
        return top(values, k, int(self._job.threads))

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        """The largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
        return log_normalizers(logits, int(self._job.threads))
