"""The native ranking against numpy's stable sort and sums in float64, row by row and bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dikkat_runtime.engine.options import log_normalizers, token_scores, top
from dikkat_runtime.errors import AbsentError
from dikkat_runtime.native.arrays import aligned
from dikkat_runtime.native.library import library

WIDTHS = [1, 2, 16, 63, 64, 65, 129, 1000, 1025, 5000]


@pytest.fixture(autouse=True)
def kernels() -> None:
    try:
        library()
    except AbsentError as error:
        pytest.skip(str(error))


def random_logits(rows: int, width: int, spread: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    generator = np.random.default_rng(width)
    return aligned((generator.standard_normal((rows, width)) * spread + 3).astype(np.float32))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_the_largest_are_those_of_a_stable_sort(width: int, levels: int) -> None:
    values = (np.random.default_rng(width).integers(-levels, levels, size=(7, width)) / 3).astype(np.float32)
    values[0], values[1, width // 2 :] = -np.inf, -np.inf
    for k in {1, min(6, width), min(64, width), min(70, width)}:
        largest, indices = top(values, k, 1)
        expected = np.argsort(-values, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(largest, np.take_along_axis(values, expected, axis=1))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 3000.0])
def test_normalizers_are_those_of_float64(width: int, spread: float) -> None:
    logits = random_logits(5, width, spread)
    logits[0, : width // 2] = -np.inf
    largest, log_sums = log_normalizers(logits, 1)
    np.testing.assert_array_equal(largest, logits.max(axis=1, keepdims=True))
    exact = torch.from_numpy(logits.astype(np.float64) - largest).logsumexp(dim=1, keepdim=True).numpy()
    np.testing.assert_allclose(log_sums, exact, rtol=1e-6, atol=1e-6)
    # else a log-probability above 0
    assert float(log_sums.min()) >= 0.0


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_scores_of_tokens_are_those_of_float64(width: int, spread: float) -> None:
    logits = random_logits(5, width, spread)
    tokens = np.array([0, width - 1, width // 2, int(logits[3].argmax()), int(logits[4].argmin())])
    exact = torch.from_numpy(logits.astype(np.float64)).log_softmax(dim=1).numpy()
    others = np.where(np.arange(width) == tokens[:, None], -np.inf, exact).max(axis=1)
    own = exact[np.arange(5), tokens]
    expected = np.stack([own, own - others, -(np.exp(exact) * exact).sum(axis=1)], axis=1)
    for threads in (1, 2):
        np.testing.assert_allclose(token_scores(logits, tokens, threads), expected, rtol=2e-6, atol=2e-6)
    with pytest.raises(IndexError, match="outside the vocabulary"):
        token_scores(logits, tokens + width, 1)


@pytest.mark.parametrize("width", [1000, 5000])
def test_a_row_has_the_same_bits_alone_in_company_and_on_two_threads(width: int) -> None:
    """Two threads rank 2 ** 15 entries (ranking.c)."""
    logits = random_logits(70, width, 3.0)
    log_sums, best = log_normalizers(logits, 1)[1], top(logits, 7, 1)
    for rows in ([0], [69], [3, 4, 5]):
        np.testing.assert_array_equal(log_normalizers(aligned(logits[rows]), 1)[1], log_sums[rows])
    np.testing.assert_array_equal(log_normalizers(logits, 2)[1], log_sums)
    for single, several in zip(best, top(logits, 7, 2), strict=True):
        np.testing.assert_array_equal(single, several)


@pytest.mark.parametrize("index", [0, 100, 1999])
def test_a_nan_makes_the_sum_nan(index: int) -> None:
    logits = random_logits(2, 2000, 1.0)
    logits[1, index] = np.nan
    assert np.isnan(log_normalizers(logits, 1)[1]).tolist() == [[False], [True]]
