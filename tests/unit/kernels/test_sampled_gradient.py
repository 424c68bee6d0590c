"""Sampled gradients: each probability next to its own, right in the mean, and multiplied as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat import kernels
from dikkat.kernels.cross_entropy import (
    CAPACITY,
    SHARES,
    DenseSampledGradient,
    SampledGradient,
    sampled_softmax,
)
from dikkat.kernels.library import library, why_absent

needs_kernels = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
DTYPES = (torch.float32, torch.bfloat16)
SIZES = ((5, 1, 1), (9, 37, 12), (40, 1000, 70), (33, 515, 256))
"""Rows, vocabulary, width."""


@pytest.fixture(params=[pytest.param("native", marks=needs_kernels), "torch"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[kernels.Backend]:
    with kernels.use(request.param):
        yield request.param


def random_case(rows: int, vocab_size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets and offsets; from row to row the probabilities get less even."""
    generator = torch.Generator().manual_seed(rows + vocab_size)
    logits = torch.randn(rows, vocab_size, generator=generator) * torch.linspace(0.0, 6.0, rows)[:, None]
    targets = torch.randint(vocab_size, (rows,), generator=generator)
    return logits.to(dtype), targets, torch.rand(rows, generator=generator)


def dense(sampled: SampledGradient | DenseSampledGradient, vocab_size: int) -> Tensor:
    """The whole matrix (N, V) in float32, zeros included."""
    if isinstance(sampled, DenseSampledGradient):
        return sampled.matrix
    is_filled = torch.arange(CAPACITY) < sampled.counts[:, None]
    matrix = torch.zeros(len(sampled.counts), vocab_size)
    indices = is_filled.nonzero()[:, 0], sampled.entries[is_filled]
    return matrix.index_put_(indices, sampled.shares[is_filled], accumulate=True)


def without_target(matrix: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Drawn probabilities of each row, from the gradient that the target is taken off."""
    return matrix.double().scatter_add(1, targets[:, None], torch.full((len(targets), 1), 1.0 - smoothing).double())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "vocab_size", "width"), SIZES)
def test_each_probability_is_rounded_up_or_down_and_each_row_is_whole(
    rows: int, vocab_size: int, width: int, smoothing: float, dtype: torch.dtype
) -> None:
    logits, targets, offsets = random_case(rows, vocab_size, dtype)
    loss, likelihood, sampled = sampled_softmax(logits, targets, smoothing, offsets)
    exact = logits.double()
    wanted = F.cross_entropy(exact, targets, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(loss.double(), wanted, atol=1e-5, rtol=1e-5)
    plain = F.cross_entropy(exact, targets, reduction="none")
    torch.testing.assert_close(likelihood.double(), plain, atol=1e-5, rtol=1e-5)
    counts = without_target(dense(sampled, vocab_size), targets, smoothing) * SHARES
    torch.testing.assert_close(counts, counts.round(), atol=1e-4, rtol=0)
    assert float((counts - exact.softmax(1) * SHARES).abs().max()) < 1 + 1e-3
    torch.testing.assert_close(counts.sum(1), torch.full((rows,), float(SHARES)).double(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_the_mean_over_all_offsets_is_the_probability(spread: float) -> None:
    """Over n even offsets a share is right to one part in n."""
    count, smoothing = 512, 0.1
    logits = (torch.randn(1, 999, generator=torch.Generator().manual_seed(1)) * spread).expand(count, -1).contiguous()
    targets = torch.full((count,), 7)
    offsets = (torch.arange(count) + 0.5) / count
    _, _, sampled = sampled_softmax(logits, targets, smoothing, offsets)
    mean = without_target(dense(sampled, 999), targets, smoothing).mean(0)
    assert float((mean - logits[0].double().softmax(0)).abs().max()) <= 1.1 / (count * SHARES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "vocab_size", "width"), SIZES)
def test_products_are_those_of_the_dense_matrix(rows: int, vocab_size: int, width: int, dtype: torch.dtype) -> None:
    """Against float64; what is added is kept in float32."""
    logits, targets, offsets = random_case(rows, vocab_size, dtype)
    _, _, sampled = sampled_softmax(logits, targets, 0.1, offsets)
    matrix = dense(sampled, vocab_size).double()
    weight, hidden = torch.randn(vocab_size, width).to(dtype), torch.randn(rows, width).to(dtype)
    begin, total = torch.randn(width), torch.randn(vocab_size, width)
    wanted = total.double() + matrix.t() @ hidden.double()
    result = sampled.times(weight, begin)
    sampled.add_transposed_times(hidden, total)
    assert result.dtype == dtype
    exact = begin.double() + matrix @ weight.double()
    assert float((result.double() - exact).norm()) <= 2 * torch.finfo(dtype).eps * float(exact.norm())
    torch.testing.assert_close(total.double(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_logit_that_is_no_number_reaches_both_gradients_and_no_other_row(wrong: float) -> None:
    logits, targets, offsets = random_case(9, 40, torch.float32)
    logits[4, 3], targets[4] = wrong, 3
    loss, likelihood, sampled = sampled_softmax(logits, targets, 0.1, offsets)
    grad_hidden = sampled.times(torch.randn(40, 8), torch.zeros(8))
    grad_weight = torch.zeros(40, 8)
    sampled.add_transposed_times(torch.randn(9, 8), grad_weight)
    assert not grad_weight.isfinite().all()
    finite = torch.arange(9) != 4
    for item in (loss, likelihood, grad_hidden.sum(1)):
        assert torch.equal(item.isfinite(), finite)


def test_no_rows_add_nothing() -> None:
    logits, targets, offsets = random_case(0, 40, torch.float32)
    loss, _, sampled = sampled_softmax(logits, targets, 0.1, offsets)
    total = torch.ones(40, 8)
    sampled.add_transposed_times(torch.randn(0, 8), total)
    assert (loss.numel(), sampled.times(torch.randn(40, 8), torch.zeros(8)).shape) == (0, (0, 8))
    assert torch.equal(total, torch.ones(40, 8))


def test_any_number_of_threads_gives_the_same_bits(backend: kernels.Backend) -> None:
    if backend == "torch":
        pytest.skip("PyTorch's products differ with its threads")
    logits, targets, offsets = random_case(200, 700, torch.bfloat16)
    weight, hidden = torch.randn(700, 48).bfloat16(), torch.randn(200, 48).bfloat16()
    before, result = torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        try:
            loss, _, sampled = sampled_softmax(logits, targets, 0.1, offsets)
            total = torch.zeros(700, 48)
            sampled.add_transposed_times(hidden, total)
            result.append((loss, dense(sampled, 700), sampled.times(weight, torch.zeros(48)), total))
        finally:
            torch.set_num_threads(before)
    for others in result[1:]:
        assert all(map(torch.equal, result[0], others))


@needs_kernels
def test_an_entry_that_is_there_twice_counts_twice() -> None:
    logits, targets, offsets = random_case(3, 40, torch.float32)
    _, _, sampled = sampled_softmax(logits, targets, 0.1, offsets)
    if not isinstance(sampled, SampledGradient):
        pytest.skip("a dense matrix has each entry once")
    entries = torch.full_like(sampled.entries, 5)
    twice = replace(sampled, entries=entries, counts=torch.full_like(sampled.counts, 2))
    expected = torch.zeros(3, 40)
    expected[:, 5] = twice.shares[:, :2].sum(1)
    assert torch.equal(dense(twice, 40), expected)
