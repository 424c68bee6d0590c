"""The native ranking against numpy's stable sort and sums in float64, row by row and bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from dikkat.native import library, ranking

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")

WIDTHS = [1, 2, 16, 63, 64, 65, 129, 1000, 1025, 5000]


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@needs_kernels
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_the_largest_are_those_of_a_stable_sort(width: int, levels: int) -> None:
    values = (np.random.default_rng(width).integers(-levels, levels, size=(7, width)) / 3).astype(np.float32)
    values[0], values[1, width // 2 :] = -np.inf, -np.inf
    for k in {1, min(6, width), min(64, width), min(70, width)}:
        found, places = ranking.top(torch.from_numpy(values), k)
        expected = np.argsort(-values, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(places.numpy(), expected)
        np.testing.assert_array_equal(found.numpy(), np.take_along_axis(values, expected, axis=1))


@needs_kernels
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 3000.0])
def test_normalizers_are_those_of_float64(width: int, spread: float) -> None:
    logits = torch.randn(5, width) * spread + 3
    logits[0, : width // 2] = -torch.inf
    largest, log_sums = ranking.normalizers(logits)
    assert torch.equal(largest, logits.amax(dim=-1, keepdim=True))
    expected = (logits.double() - largest.double()).logsumexp(dim=-1, keepdim=True)
    torch.testing.assert_close(log_sums.double(), expected, rtol=1e-6, atol=1e-6)
    # else a log-probability above 0
    assert float(log_sums.min()) >= 0.0


@needs_kernels
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("width", [1000, 5000])
def test_a_row_has_the_same_bits_alone_in_company_and_on_two_threads(width: int) -> None:
    """2 ** 15 entries are enough for a second thread, says ranking.c."""
    logits = torch.randn(70, width) * 3
    torch.set_num_threads(1)
    log_sums, best = ranking.normalizers(logits)[1], ranking.top(logits, 7)
    for rows in ([0], [69], [3, 4, 5]):
        assert torch.equal(ranking.normalizers(logits[rows])[1], log_sums[rows])
    torch.set_num_threads(2)
    assert torch.equal(ranking.normalizers(logits)[1], log_sums)
    assert all(map(torch.equal, ranking.top(logits, 7), best))


@needs_kernels
def test_a_number_that_is_none_makes_the_sum_none() -> None:
    for place in (0, 100, 1999):
        logits = torch.randn(2, 2000)
        logits[1, place] = torch.nan
        assert ranking.normalizers(logits)[1].isnan().tolist() == [[False], [True]]


@needs_kernels
def test_what_the_kernels_do_not_read() -> None:
    assert ranking.runs_natively(torch.zeros(2, 4))
    for values in (torch.zeros(2, 4).double(), torch.zeros(2, 4).bfloat16(), torch.zeros(4, 2).t()):
        assert not ranking.runs_natively(values)


@pytest.mark.usefixtures("without_kernels")
def test_asking_for_a_ranking_that_is_not_here_is_an_error() -> None:
    assert not ranking.runs_natively(torch.zeros(2, 4))
    with pytest.raises(RuntimeError, match="there is no native code here; ask runs_natively first"):
        ranking.top(torch.zeros(2, 4), 1)
    with pytest.raises(RuntimeError, match="there is no native code here; ask runs_natively first"):
        ranking.normalizers(torch.zeros(2, 4))
