"""Orthogonalised matrices against singular values and the published iteration in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dikkat.kernels.adamw import Step, Weights
from dikkat.training import optimizer as newton_schulz
from dikkat.training.optimizer import muon, orthogonalize


@pytest.fixture(autouse=True)
def both_paths(either_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native kernel is right on every processor, though it is not the fastest on each."""
    monkeypatch.setattr(newton_schulz, "has_fast_int8", lambda: True)


def random_matrices(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 48, 16), (2, 16, 48), (1, 96, 32)], ids=str)
def test_orthogonalized_moves_all_singular_values_near_one(shape: tuple[int, ...]) -> None:
    """The published five steps bring them into about [0.7, 1.2] and turn no direction (Jordan et al. 2024)."""
    matrices = random_matrices(*shape)
    for before, after in zip(matrices.double().numpy(), orthogonalize(matrices).double().numpy(), strict=True):
        u, spread, v = np.linalg.svd(before, full_matrices=False)
        values = np.linalg.svd(after, compute_uv=False)
        wide_enough = spread / np.linalg.norm(before) > 0.01
        assert values[: wide_enough.sum()].min() > 0.6
        assert values.max() < 1.3
        turned = u.T @ after @ v.T
        assert np.abs(turned - np.diag(np.diag(turned))).max() < 0.05, "singular vectors must stay"
        closeness = float((after * (u @ v)).sum() / (np.linalg.norm(after) * np.linalg.norm(u @ v)))
        assert closeness > 0.97


def test_orthogonalized_does_not_see_the_scale() -> None:
    matrices = random_matrices(2, 16, 24)
    small, large = (orthogonalize(matrices * scale) for scale in (2.0**-10, 2.0**10))
    assert float((small - large).abs().max()) < 0.02
    assert not orthogonalize(torch.zeros(1, 4, 6)).any(), "no gradient, no update"


SHAPES = [(3, 24, 24), (2, 48, 16), (2, 16, 48), (1, 96, 32), (3, 5, 7), (2, 130, 70), (2, 256, 768), (4, 1, 9)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_orthogonalized_is_the_published_iteration(shape: tuple[int, int, int], power: float) -> None:
    """Singular values all alike, or falling as 1/n; the limit is that of five roundings."""
    matrices = random_matrices(*shape)
    u, spread, v = torch.linalg.svd(matrices, full_matrices=False)
    matrices = u * (spread / torch.arange(1, min(shape[1:]) + 1) ** power).unsqueeze(1) @ v
    for result, matrix in zip(orthogonalize(matrices), matrices, strict=True):
        exact = published_iteration(matrix.double())
        assert float((result - exact).norm()) <= 0.05 * float(exact.norm())


def test_numbers_are_as_wide_as_the_processor_is_fast_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hardware bfloat16 the iteration is in float32, which is faster there and far closer to the exact one."""
    matrices, errors = random_matrices(2, 48, 64), {}
    monkeypatch.setattr(newton_schulz, "has_fast_int8", lambda: False)
    for is_narrow in (False, True):
        monkeypatch.setattr(newton_schulz, "has_fast_bfloat16", lambda is_narrow=is_narrow: is_narrow)
        exact = torch.stack([published_iteration(matrix.double()) for matrix in matrices])
        errors[is_narrow] = float((orthogonalize(matrices) - exact).norm() / exact.norm())
    assert errors[False] < 1e-4 < errors[True] < 0.05


def published_iteration(matrix: Tensor) -> Tensor:
    """Five iterations of the odd quintic in float64, written from the paper's coefficients."""
    x = matrix / matrix.norm()
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x - 4.7750 * gram @ x + 2.0315 * gram @ gram @ x
    return x


def test_matrices_do_not_see_each_other_nor_the_number_of_threads() -> None:
    matrices = random_matrices(5, 40, 70)
    together, threads = orthogonalize(matrices), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        again = orthogonalize(matrices)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together, again)
    assert torch.equal(together[3:4], orthogonalize(matrices[3:4]))


@pytest.mark.parametrize("fresh", [0.25, 0.75])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_update_is_that_of_the_formula(dtype: torch.dtype, fresh: float) -> None:
    """Jordan et al. (2024) with the scale of Liu et al. (2025); 5,320 numbers are more than one share of work."""
    shapes = [(3, 24, 40), (2, 48, 16), (1, 8, 113)]
    sizes = [number * rows * columns for number, rows, columns in shapes]
    master, average, momentum, gradient = random_matrices(4, sum(sizes)).unbind()
    gradient = gradient.to(dtype)
    weights = Weights(master.clone(), average.clone(), torch.empty(sum(sizes), dtype=torch.bfloat16))
    wanted_momentum = 0.95 * momentum + gradient.float() / 7.0
    ahead = (gradient.float() / 7.0 + 0.95 * wanted_momentum).split(sizes)
    wanted = [
        0.999 * old.double() - 0.01 * 0.2 * max(shape[1:]) ** 0.5 * orthogonalize(part.view(shape)).double().reshape(-1)
        for old, part, shape in zip(master.split(sizes), ahead, shapes, strict=True)
    ]
    muon(weights, momentum, torch.tensor(shapes), gradient, 7, Step(1, 0.01, 0.9, 0.98, 0.1, fresh))
    assert torch.allclose(momentum, wanted_momentum, rtol=0, atol=1e-6)
    # a last bit of what is made orthogonal may be rounded to another byte
    assert torch.allclose(weights.master.double(), torch.cat(wanted), rtol=0, atol=3e-5)
    assert not torch.allclose(weights.master, 0.999 * master, rtol=0, atol=1e-3)
    assert weights.average is not None
    assert torch.allclose(weights.average, torch.lerp(average, weights.master, fresh), rtol=0, atol=1e-6)
    assert weights.copy is not None
    assert torch.equal(weights.copy, weights.master.to(torch.bfloat16))
