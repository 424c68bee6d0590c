"""AdamW in one pass against its formula in float64; norms against theirs, whatever the number of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dikkat.kernels.adamw import EPSILON, PART, Step, Weights, adamw, norm

SIZES = [1, 15, 64, PART, 2 * PART + 77]
STEP = Step(update=3, learning_rate=0.01, beta1=0.9, beta2=0.98, weight_decay=0.1, fresh=0.25)


@pytest.fixture(autouse=True)
def both_paths(either_path: None) -> None:
    """The kernel and PyTorch."""


def adamw_of_the_paper(
    weights: Weights, first: Tensor, second: Tensor, gradient: Tensor, divisor: Tensor, step: Step
) -> None:
    """Compute `adamw` line by line as in the paper; the kernel and PyTorch's fused one do it in a single pass."""
    mean = gradient.to(weights.master.dtype) / divisor
    first.mul_(step.beta1).add_(mean, alpha=1.0 - step.beta1)
    second.mul_(step.beta2).addcmul_(mean, mean, value=1.0 - step.beta2)
    unbiased_first = first / (1.0 - step.beta1**step.update)
    unbiased_second = second / (1.0 - step.beta2**step.update)
    weights.master.mul_(1.0 - step.learning_rate * step.weight_decay)
    weights.master.sub_(step.learning_rate * unbiased_first / (unbiased_second.sqrt() + EPSILON))
    weights.update_ema(step.fresh)


def vectors(size: int, dtype: torch.dtype) -> tuple[Weights, Tensor, Tensor, Tensor]:
    """Weights with an average and a copy, both moments, and a gradient in `dtype`."""
    generator = torch.Generator().manual_seed(size)
    master, average, first, gradient = (torch.randn(size, generator=generator) for _ in range(4))
    second = torch.rand(size, generator=generator)
    return Weights(master, average, torch.empty(size, dtype=torch.bfloat16)), first, second, gradient.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_an_update_is_that_of_the_formula(size: int, dtype: torch.dtype) -> None:
    weights, first, second, gradient = vectors(size, dtype)
    assert weights.average is not None
    assert weights.copy is not None
    old, average, m, v = (item.double().numpy() for item in (weights.master, weights.average, first, second))
    old, average = old.copy(), average.copy()
    g = gradient.double().numpy() / 7.0
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    shifted = m / (1 - 0.9**3) / (np.sqrt(v / (1 - 0.98**3)) + EPSILON)
    wanted = old * (1 - 0.01 * 0.1) - 0.01 * shifted
    adamw(weights, first, second, gradient, torch.tensor(7.0), STEP)
    assert np.abs(weights.master.numpy() - wanted).max() <= 1e-6
    assert np.abs(weights.master.numpy() - old).max() > 1e-3
    assert np.abs(first.numpy() - m).max() <= 1e-6
    assert np.abs(second.numpy() - v).max() <= 1e-6
    assert np.abs(weights.average.numpy() - (0.75 * average + 0.25 * wanted)).max() <= 1e-6
    assert torch.equal(weights.copy, weights.master.to(torch.bfloat16))


def test_the_readable_reference_is_the_same_update() -> None:
    result = []
    for update in (adamw, adamw_of_the_paper):
        weights, first, second, gradient = vectors(1000, torch.bfloat16)
        update(weights, first, second, gradient, torch.tensor(7.0), STEP)
        assert weights.average is not None
        result.append((weights.master, weights.average, first, second))
    for ours, reference in zip(*result, strict=True):
        torch.testing.assert_close(ours, reference, rtol=0, atol=1e-6)


def test_the_copy_is_rounded_as_pytorch_rounds_it() -> None:
    """The smallest numbers too, which an instruction of the processor would take for zero."""
    smallest = torch.tensor([1e-40, -3e-39, 2.0**-126, 0.0, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8] * 8)
    weights = Weights(smallest, None, torch.ones(len(smallest), dtype=torch.bfloat16))
    still = STEP._replace(weight_decay=0.0)
    first, second, gradient = (torch.zeros_like(smallest) for _ in range(3))
    adamw(weights, first, second, gradient, torch.tensor(1.0), still)
    assert weights.copy is not None
    assert torch.equal(weights.copy.view(torch.int16), smallest.to(torch.bfloat16).view(torch.int16))
    assert weights.copy.count_nonzero() == 40


def test_nothing_needs_to_follow() -> None:
    weights, first, second, gradient = vectors(100, torch.float32)
    alone = Weights(weights.master.clone(), None, None)
    adamw(alone, first.clone(), second.clone(), gradient.clone(), torch.tensor(2.0), STEP)
    adamw(weights, first, second, gradient, torch.tensor(2.0), STEP)
    assert torch.equal(alone.master, weights.master)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_a_norm_is_that_of_numpy_and_the_same_by_any_number_of_threads(size: int, dtype: torch.dtype) -> None:
    vector = vectors(size, dtype)[3]
    assert float(norm(vector)) == pytest.approx(float(np.linalg.norm(vector.double().numpy())), rel=1e-6)
    threads, result = torch.get_num_threads(), set()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            result.add(float(norm(vector)))
    finally:
        torch.set_num_threads(threads)
    assert len(result) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("index", [0, 63, PART + 70])
def test_a_norm_tells_what_is_not_finite(bad: float, index: int) -> None:
    vector = vectors(PART + 77, torch.float32)[3]
    vector[index] = bad
    assert not norm(vector).isfinite()
