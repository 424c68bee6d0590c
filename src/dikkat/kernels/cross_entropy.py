"""Label-smoothed cross-entropy over the vocabulary, computed with its gradient in chunks that stay in cache.

The (tokens x vocabulary) matrix of float32 logits is the largest of a small model; it is never built.
"""

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.kernels.calls import LANES, address, check_status, index_address, is_float32, native_library, runs_native
from dikkat.kernels.gpu.choice import runs_triton
from dikkat.kernels.int8_products import pack, packed_product
from dikkat.kernels.linear import Products
from dikkat.kernels.random_bits import uniform_numbers

# The gradient of the loss over a vocabulary, its probabilities rounded at random to multiples of one share.
#
# Most become zero, so products with it cost a few rows instead of a vocabulary; the mean over all random numbers is the
# exact gradient. This is systematic sampling (Madow 1949).

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
        addresses, threads = map(address, (product, weight, begin)), torch.get_num_threads()
        code = call(ctypes.byref(self._structure()), *addresses, *weight.shape, is_float32(weight), threads)
        check_status(code, "a sampled entry", len(weight))
        return product

    def add_transposed_times(self, hidden: Float[Tensor, "N D"], out: Float[Tensor, "V D"]) -> None:
        """Add this matrix, transposed, times `hidden` to the dense float32 `out`."""
        hidden, call = hidden.contiguous(), native_library().sampled_grad_weight
        addresses, threads = map(address, (out, hidden)), torch.get_num_threads()
        code = call(ctypes.byref(self._structure()), *addresses, *out.shape, is_float32(hidden), threads)
        check_status(code, "a sampled entry", len(out))

    def _structure(self) -> _SampledStruct:
        addresses = map(address, (self.entries, self.counts, self.shares))
        return _SampledStruct(len(self.counts), CAPACITY, SHARES, *addresses)


@dataclass(frozen=True, slots=True, eq=False)
class DenseSampledGradient:
    """The PyTorch twin of `SampledGradient`: a dense matrix, most of whose entries are zero."""

    matrix: Tensor
    """float32, (N, V)."""

    def times(self, weight: Float[Tensor, "V D"], begin: Float[Tensor, "D"]) -> Float[Tensor, "N D"]:
        return torch.addmm(begin, self.matrix, weight.float()).to(weight.dtype)

    def add_transposed_times(self, hidden: Float[Tensor, "N D"], out: Float[Tensor, "V D"]) -> None:
        out.addmm_(self.matrix.t(), hidden.float())


def sampled_softmax(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float, offsets: Float[Tensor, "N"]
) -> tuple[Tensor, Tensor, SampledGradient | DenseSampledGradient]:
    """Compute loss and likelihood of each row, (N,) float32 each, and the sampled gradient of the loss.

    Probabilities of a row are laid end to end, and each multiple of 1 / SHARES, after the row's offset (0 to 1, in
    such steps), falls to the entry that it lies in: a number of shares is the next above or below the exact one. Raises
    `IndexError` for a target outside of the vocabulary.
    """
    if not runs_native(logits):
        return sampled_softmax_reference(logits, targets, smoothing, offsets)
    rows, vocab_size = logits.shape
    entries, counts = torch.empty(rows, CAPACITY, dtype=torch.int32), torch.empty(rows, dtype=torch.int32)
    matrix = SampledGradient(entries, counts, torch.empty(rows, CAPACITY))
    loss, likelihood = torch.empty(2, rows)
    call, sampled = native_library().sampled_softmax, ctypes.byref(matrix._structure())
    inputs = address(logits), index_address(targets, (rows,), "targets"), address(offsets), vocab_size, smoothing
    outputs = map(address, (loss, likelihood))
    code = call(sampled, *inputs, *outputs, is_float32(logits), torch.get_num_threads())
    check_status(code, "a target", vocab_size)
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


CHUNK_ENTRIES = 1 << 24
"""Logits in an exact chunk, 32 MiB of bfloat16; with fewer, the weight's gradient is added more often."""
GPU_CHUNK_ENTRIES = 1 << 28
"""The same on a GPU, which smaller products do not fill."""
SAMPLED_ROWS = 1024
"""Rows of a sampled chunk: more of them leave the cache, fewer are sorted and added more often."""


def smoothed_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, "N"],
    smoothing: float,
    bias: Float[Tensor, "V"] | None = None,
    *,
    products: Products = "exact",
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum over tokens the smoothed loss, and the plain negative log-likelihood, which has no gradient, in nats.

    The smoothed target puts `1 - smoothing` on the right entry and spreads `smoothing` evenly over all V (Szegedy et
    al. 2016, section 7). Statistics are float32; exact products run in the type of `hidden`. With products in eight
    bits the logits are rounded and the gradient is sampled with PyTorch's generator; its mean is the exact one.
    """
    if bias is not None:
        # a bias is one more column of the weight, whose input is 1
        hidden = torch.cat((hidden, hidden.new_ones(len(hidden), 1)), dim=1)
        weight = torch.cat((weight, bias[:, None]), dim=1)
    loss, likelihood = _SmoothedCrossEntropy.apply(hidden, weight, targets, smoothing, products)
    return loss, likelihood


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Both gradients are made on the way forward, a chunk at a time, and only scaled on the way back."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, products: Products
    ) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        likelihood = torch.zeros_like(loss)
        kind: type[_ExactChunks] = _SampledChunks
        rows = SAMPLED_ROWS
        if products == "exact":
            entries = CHUNK_ENTRIES if hidden.device.type == "cpu" else GPU_CHUNK_ENTRIES
            kind, rows = _ExactChunks, max(16, entries // weight.shape[0])
        chunks = kind(hidden, weight, targets, smoothing, rows, with_gradient=any(ctx.needs_input_grad))
        for start in range(0, hidden.shape[0], chunks.rows):
            chunk_loss, chunk_likelihood = chunks.take(slice(start, start + chunks.rows))
            loss += chunk_loss.sum()
            likelihood += chunk_likelihood.sum()
        ctx.save_for_backward(chunks.grad_hidden, chunks.grad_weight)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        dtype = grad_hidden.dtype
        # the usual case is the loss itself; a GPU is not asked
        if scale.device.type == "cpu" and scale.item() == 1.0:
            return grad_hidden, grad_weight.to(dtype), None, None, None
        return grad_hidden * scale.to(dtype), (grad_weight * scale).to(dtype), None, None, None


class _ExactChunks:
    """Collects loss and gradients of N hidden states before a weight (V, D), `rows` at a time, in their type."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, rows: int, *, with_gradient: bool
    ) -> None:
        self._hidden, self._weight, self._targets, self._smoothing = hidden, weight, targets, smoothing
        self.rows, self._with_gradient = rows, with_gradient
        self._logits = hidden.new_empty(min(rows, hidden.shape[0]), weight.shape[0])
        self.grad_hidden = torch.empty_like(hidden)
        self.grad_weight = torch.zeros_like(weight, dtype=torch.float32)

    def take(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Compute loss and likelihood of each of these rows, and add their part of the gradients."""
        hidden = self._hidden[rows]
        logits = torch.mm(hidden, self._weight.t(), out=self._logits[: hidden.shape[0]])
        losses = smoothed_softmax(logits, self._targets[rows], self._smoothing)
        if self._with_gradient:
            torch.mm(logits, self._weight, out=self.grad_hidden[rows])
            self.grad_weight += logits.t() @ hidden
        return losses


class _SampledChunks(_ExactChunks):
    """Logits are products in eight bits; what follows them is not rounded but sampled.

    In eight bits a row of the gradient would keep the target and lose the other thousands of entries, most of which are
    below half of a 127th of it.
    """

    def __init__(self, *inputs: Any, with_gradient: bool) -> None:
        super().__init__(*inputs, with_gradient=with_gradient)
        hidden, weight = self._hidden, self._weight
        self._packed = pack(weight)
        self._offsets = uniform_numbers(hidden.shape[0])
        # the share of every entry that smoothing takes
        even = -self._smoothing / weight.shape[0]
        self._begin = weight.sum(0, dtype=torch.float32).mul_(even)
        self.grad_weight.copy_(hidden.sum(0, dtype=torch.float32).mul_(even))

    def take(self, rows: slice) -> tuple[Tensor, Tensor]:
        hidden = self._hidden[rows]
        logits = packed_product(hidden, self._packed, self._logits[: hidden.shape[0]])
        loss, likelihood, sampled = sampled_softmax(logits, self._targets[rows], self._smoothing, self._offsets[rows])
        if self._with_gradient:
            self.grad_hidden[rows] = sampled.times(self._weight, self._begin)
            sampled.add_transposed_times(hidden, self.grad_weight)
        return loss, likelihood


def smoothed_softmax(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Turn logits in place into the gradient of the smoothed loss; returns loss and likelihood of each row.

    Raises `IndexError` for a target outside of the vocabulary and `ValueError` for targets that are not (N,) int64.
    On a GPU, which is not waited for, the loss of a target outside is not a number.
    """
    if runs_triton(logits):
        from dikkat.kernels.gpu.cross_entropy import smoothed_softmax as gpu_smoothed_softmax

        return gpu_smoothed_softmax(logits, targets, smoothing)
    if not runs_native(logits):
        return smoothed_softmax_reference(logits, targets, smoothing)
    loss, likelihood = torch.empty(2, logits.shape[0])
    inputs = address(logits), index_address(targets, logits.shape[:1], "targets"), *logits.shape, smoothing
    call, outputs = native_library().smoothed_softmax, map(address, (loss, likelihood))
    code = call(*inputs, *outputs, is_float32(logits), torch.get_num_threads())
    check_status(code, "a target", logits.shape[1])
    return loss, likelihood


def smoothed_softmax_reference(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Compute `smoothed_softmax` by PyTorch: the gradient is softmax less the smoothed target."""
    wanted = targets[:, None]
    log_probabilities = logits.log_softmax(dim=-1, dtype=torch.float32)
    likelihood, mean = -log_probabilities.gather(1, wanted), log_probabilities.mean(dim=-1)
    gradient = log_probabilities.exp_().scatter_add_(1, wanted, torch.full_like(likelihood, smoothing - 1.0))
    torch.sub(gradient, smoothing / logits.shape[1], out=logits)
    likelihood = likelihood[:, 0]
    return (1.0 - smoothing) * likelihood - smoothing * mean, likelihood
