"""The gradient of the loss over a vocabulary, its probabilities rounded at random to multiples of one share.

Most become zero, so products with it cost a few rows instead of a vocabulary; the mean over all random numbers is the
exact gradient. This is systematic sampling (Madow 1949).
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.kernels.calls import (
    LANES,
    address,
    check_status,
    index_address,
    is_float32,
    native_library,
    runs_native,
)

SHARES = 128
"""Shares that a row is cut into. Twice as many take a third of the gradient's noise and a sixth more time."""
CAPACITY = 1 + SHARES + 2 * LANES
"""Entries of a row: its target, one for each share, and one that rounding of sums may add in each lane."""


class _SampledStruct(ctypes.Structure):
    """`SampledGradient` of sampled_gradient.c."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "capacity", "samples")),
        *((name, c_void_p) for name in ("entries", "counts", "shares")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SampledGradient:
    """The sparse sampled gradient of (N, V) logits, without the `-smoothing / V` that every entry has."""

    vocab_size: int
    entries: Tensor
    """int32, (N, CAPACITY). One may occur twice, and then counts twice."""
    counts: Tensor
    """int32, (N): entries of each row."""
    shares: Tensor
    """float32, (N, CAPACITY)."""

    def times(self, weight: Float[Tensor, "V D"], begin: Float[Tensor, "D"]) -> Float[Tensor, "N D"]:
        """Multiply this matrix by `weight` and add the float32 `begin` to every row."""
        weight, product = weight.contiguous(), weight.new_empty(len(self.counts), weight.shape[1])
        call = native_library().sampled_grad_hidden
        matrix = ctypes.byref(self._structure())
        sizes, threads = map(c_int64, weight.shape), torch.get_num_threads()
        code = call(matrix, *map(address, (product, weight, begin)), *sizes, is_float32(weight), threads)
        check_status(code, "a sampled entry", len(weight))
        return product

    def add_transposed_times(self, hidden: Float[Tensor, "N D"], out: Float[Tensor, "V D"]) -> None:
        """Add this matrix, transposed, times `hidden` to the dense float32 `out`."""
        hidden, call = hidden.contiguous(), native_library().sampled_grad_weight
        sizes, matrix = map(c_int64, out.shape), ctypes.byref(self._structure())
        code = call(matrix, address(out), address(hidden), *sizes, is_float32(hidden), torch.get_num_threads())
        check_status(code, "a sampled entry", len(out))

    def dense(self) -> Float[Tensor, "N V"]:
        """Return the matrix in float32, zeros included."""
        is_filled = torch.arange(CAPACITY) < self.counts[:, None]
        matrix = torch.zeros(len(self.counts), self.vocab_size)
        indices = is_filled.nonzero()[:, 0], self.entries[is_filled]
        return matrix.index_put_(indices, self.shares[is_filled], accumulate=True)

    def _structure(self) -> _SampledStruct:
        addresses = map(address, (self.entries, self.counts, self.shares))
        return _SampledStruct(len(self.counts), CAPACITY, SHARES, *addresses)


@dataclass(frozen=True, slots=True, eq=False)
class DenseSampledGradient:
    """The PyTorch twin of `SampledGradient`: a dense matrix, most of whose entries are zero."""

    matrix: Tensor
    """float32, (N, V)."""

    def times(self, weight: Float[Tensor, "V D"], begin: Float[Tensor, "D"]) -> Float[Tensor, "N D"]:
        """Multiply this matrix by `weight` and add the float32 `begin` to every row."""
        return torch.addmm(begin, self.matrix, weight.float()).to(weight.dtype)

    def add_transposed_times(self, hidden: Float[Tensor, "N D"], out: Float[Tensor, "V D"]) -> None:
        """Add this matrix, transposed, times `hidden` to the float32 `out`."""
        out.addmm_(self.matrix.t(), hidden.float())

    def dense(self) -> Float[Tensor, "N V"]:
        """Return the matrix."""
        return self.matrix


def sampled_softmax(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float, offsets: Float[Tensor, "N"]
) -> tuple[Tensor, Tensor, SampledGradient | DenseSampledGradient]:
    """Compute loss and likelihood of each row, (N,) float32 each, and the sampled gradient of the loss.

    Probabilities of a row are laid end to end, and each multiple of 1 / SHARES, behind the row's offset (0 to 1, in
    such steps), falls to the entry that it lies in: a number of shares is the next above or below the exact one. Raises
    `IndexError` for a target outside of the vocabulary.
    """
    if not runs_native(logits):
        return sampled_softmax_reference(logits, targets, smoothing, offsets)
    rows, vocab_size = logits.shape
    entries, counts = torch.empty(rows, CAPACITY, dtype=torch.int32), torch.empty(rows, dtype=torch.int32)
    matrix = SampledGradient(vocab_size, entries, counts, torch.empty(rows, CAPACITY))
    loss, likelihood = torch.empty(2, rows)
    check_status(
        native_library().sampled_softmax(
            ctypes.byref(matrix._structure()),
            address(logits),
            index_address(targets, (rows,), "targets"),
            address(offsets),
            c_int64(vocab_size),
            c_float(smoothing),
            *map(address, (loss, likelihood)),
            is_float32(logits),
            torch.get_num_threads(),
        ),
        "a target",
        vocab_size,
    )
    return loss, likelihood, matrix


def sampled_softmax_reference(
    logits: Tensor, targets: Tensor, smoothing: float, offsets: Tensor
) -> tuple[Tensor, Tensor, DenseSampledGradient]:
    """Compute `sampled_softmax` by PyTorch: the shares of an entry are the multiples that its end passes."""
    scores = logits.float()
    right = targets[:, None]
    normalizer = scores.logsumexp(dim=-1, keepdim=True)
    likelihood = normalizer - scores.gather(1, right)
    loss = (1.0 - smoothing) * likelihood + smoothing * (normalizer - scores.mean(dim=-1, keepdim=True))
    # laid end to end in float64: in float32 the last entries of a long row would be lost
    ends = (scores - normalizer).double().exp_().mul_(SHARES).cumsum(dim=-1).add_(offsets[:, None]).floor_()
    counts = ends.diff(dim=-1, prepend=torch.zeros_like(ends[:, :1]))
    matrix = counts.div_(SHARES).float().scatter_add_(1, right, smoothing - 1.0 + 0.0 * likelihood)
    return loss[:, 0], likelihood[:, 0], DenseSampledGradient(matrix)
