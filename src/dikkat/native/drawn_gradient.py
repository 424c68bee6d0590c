"""The gradient of the loss over a vocabulary, its probabilities rounded by chance to multiples of one share.

Most become zero, so products with it cost a few rows instead of a vocabulary; the mean over all chances is exact.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from dikkat.native import drawn_by_torch as twin
from dikkat.native.calls import address, checked, index_address, is_wide, native_library
from dikkat.native.drawn_by_torch import SAMPLES, DenselyDrawn
from dikkat.native.kernels import LANES, runs_natively

ROOM = 1 + SAMPLES + 2 * LANES
"""Entries of a row: its target, one for each share, and one that rounding of sums may add in each lane."""


class _Drawn(ctypes.Structure):
    """`Drawn` of drawn_gradient.c."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "room", "samples")),
        *((name, c_void_p) for name in ("entries", "counts", "shares")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What is not zero in the drawn gradient of (N, V) logits, but for the `-smoothing / V` of every entry."""

    vocab_size: int
    entries: Tensor
    """int32, (N, ROOM). One may be there twice, and then counts twice."""
    counts: Tensor
    """int32, (N): entries of each row."""
    shares: Tensor
    """float32, (N, ROOM)."""

    def times(self, weight: Tensor, begin: Tensor) -> Tensor:
        """(N, D): this matrix times `weight` (V, D), plus float32 `begin` (D)."""
        weight, found = weight.contiguous(), weight.new_empty(len(self.counts), weight.shape[1])
        call = native_library().drawn_of_hidden
        drawn = ctypes.byref(self._structure())
        sizes, threads = map(c_int64, weight.shape), torch.get_num_threads()
        code = call(drawn, *map(address, (found, weight, begin)), *sizes, is_wide(weight), threads)
        checked(code, "a drawn entry", len(weight))
        return found

    def add_transposed_times(self, hidden: Tensor, to: Tensor) -> None:
        """To dense float32 `to` (V, D), this matrix transposed times `hidden` (N, D)."""
        hidden, call = hidden.contiguous(), native_library().drawn_of_weight
        sizes, drawn = map(c_int64, to.shape), ctypes.byref(self._structure())
        code = call(drawn, address(to), address(hidden), *sizes, is_wide(hidden), torch.get_num_threads())
        checked(code, "a drawn entry", len(to))

    def dense(self) -> Tensor:
        """float32, (N, V)."""
        filled = torch.arange(ROOM) < self.counts[:, None]
        matrix = torch.zeros(len(self.counts), self.vocab_size)
        return matrix.index_put_((filled.nonzero()[:, 0], self.entries[filled]), self.shares[filled], accumulate=True)

    def _structure(self) -> _Drawn:
        found = map(address, (self.entries, self.counts, self.shares))
        return _Drawn(len(self.counts), ROOM, SAMPLES, *found)


def drawn_softmax(
    logits: Tensor, targets: Tensor, smoothing: float, offsets: Tensor
) -> tuple[Tensor, Tensor, Drawn | DenselyDrawn]:
    """Loss and likelihood of each row of (N, V) logits, and the gradient of the loss, drawn.

    Probabilities of a row are laid end to end, and each multiple of 1 / SAMPLES, behind the row's of `offsets` (N, from
    0 to 1, in such steps), falls to the entry that it lies in: a number of shares is the next above or below the exact
    one (systematic sampling, Madow 1949).
    """
    if not runs_natively(logits):
        return twin.drawn_softmax(logits, targets, smoothing, offsets)
    rows, vocab_size = logits.shape
    entries, counts = torch.empty(rows, ROOM, dtype=torch.int32), torch.empty(rows, dtype=torch.int32)
    drawn = Drawn(vocab_size, entries, counts, torch.empty(rows, ROOM))
    loss, likelihood = torch.empty(2, rows)
    checked(
        native_library().drawn_softmax(
            ctypes.byref(drawn._structure()),
            address(logits),
            index_address(targets, (rows,), "targets"),
            address(offsets),
            c_int64(vocab_size),
            c_float(smoothing),
            *map(address, (loss, likelihood)),
            is_wide(logits),
            torch.get_num_threads(),
        ),
        "a target",
        vocab_size,
    )
    return loss, likelihood, drawn
