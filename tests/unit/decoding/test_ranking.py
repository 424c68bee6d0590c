"""`top` against numpy's stable sort, with and without ties, narrow rows and blocked ones; normalizers in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.decoding.ranking import normalizers, top

pytestmark = pytest.mark.usefixtures("either_path")


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(4, 900),
    k=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 40, 10**7]),
)
def test_same_as_a_stable_sort(seed: int, width: int, k: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    values = (generator.integers(-levels, levels + 1, size=(5, width)) / 7).astype(np.float32)
    values[generator.random(values.shape) < 0.1] = -np.inf
    values[generator.random(values.shape) < 0.05] = -0.0
    k = min(k, width)
    found, places = top(torch.from_numpy(values), k)
    expected = np.argsort(-values, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(values, expected, axis=1))


@pytest.mark.parametrize("width", [8, 63, 64, 65, 4097, 8000])
def test_all_equal_gives_the_lowest_indices(width: int) -> None:
    for value in (0.0, -3.5, float("-inf")):
        _, places = top(torch.full((2, width), value), 7)
        assert places.tolist() == [list(range(7))] * 2


def test_bfloat16_ties_are_broken_by_index() -> None:
    values = torch.randn(64, 8000, generator=torch.Generator().manual_seed(3)).bfloat16().float()
    _, places = top(values, 10)
    expected = np.argsort(-values.numpy(), axis=1, kind="stable")[:, :10]
    # The case is worth its name only if such ties occur.
    assert any(len(set(row)) < 10 for row in np.take_along_axis(values.numpy(), expected, axis=1).tolist())
    np.testing.assert_array_equal(places.numpy(), expected)


def test_the_sign_of_zero_does_not_count() -> None:
    _, places = top(torch.tensor([[-0.0, 0.0, -1.0, -0.0]]), 3)
    assert places.tolist() == [[0, 1, 3]]


@pytest.mark.parametrize("width", [1, 3, 64, 4097])
@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_normalizers_make_log_probabilities(width: int, spread: float) -> None:
    logits = torch.randn(6, width) * spread - 5
    largest, log_sums = normalizers(logits)
    found = logits - largest - log_sums
    torch.testing.assert_close(found.double(), logits.double().log_softmax(dim=-1), rtol=2e-6, atol=2e-6)
    assert float(found.max()) <= 0.0


def test_normalizers_do_not_depend_on_the_other_rows() -> None:
    logits = torch.randn(64, 4097) * 3
    together = torch.cat(normalizers(logits), dim=1)
    for rows in (slice(0, 1), slice(7, 9), slice(20, 63)):
        assert torch.equal(torch.cat(normalizers(logits[rows]), dim=1), together[rows])
