"""What is largest against numpy's stable sort, with and without ties, in narrow rows and in blocks; log-probabilities
against float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.torch_engine.ranking import NextTokens, top

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
    result, indices = top(torch.from_numpy(values), k)
    expected = np.argsort(-values, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(values, expected, axis=1))


@pytest.mark.parametrize("width", [8, 63, 64, 65, 4097, 8000])
def test_all_equal_gives_the_lowest_indices(width: int) -> None:
    for value in (0.0, -3.5, float("-inf")):
        _, indices = top(torch.full((2, width), value), 7)
        assert indices.tolist() == [list(range(7))] * 2


def test_bfloat16_ties_are_broken_by_index() -> None:
    values = torch.randn(64, 8000, generator=torch.Generator().manual_seed(3)).bfloat16().float()
    _, indices = top(values, 10)
    expected = np.argsort(-values.numpy(), axis=1, kind="stable")[:, :10]
    # The case is worth its name only if such ties occur.
    assert any(len(set(row)) < 10 for row in np.take_along_axis(values.numpy(), expected, axis=1).tolist())
    np.testing.assert_array_equal(indices.numpy(), expected)


def test_the_sign_of_zero_does_not_count() -> None:
    _, indices = top(torch.tensor([[-0.0, 0.0, -1.0, -0.0]]), 3)
    assert indices.tolist() == [[0, 1, 3]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 64, 4097, 8000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_log_probabilities_are_those_of_float64(width: int, spread: float, dtype: torch.dtype) -> None:
    """Of tokens that are never emitted too, so far as others have less for them."""
    logits = (torch.randn(70, width, generator=torch.Generator().manual_seed(5)) * spread - 5).to(dtype)
    logits[3, 1] = 90.0
    exact = logits.double().log_softmax(dim=-1)
    result = NextTokens(logits.clone(), (0, 1)).log_probabilities(torch.arange(width).expand(70, -1))
    assert result.dtype == torch.float32
    assert bool((result[:, :2] == -torch.inf).all())
    torch.testing.assert_close(result[:, 2:].double(), exact[:, 2:], rtol=2e-6, atol=2e-6)
    assert float(result.max()) <= 0.0


@pytest.mark.parametrize("width", [4097, 40_000])
def test_log_probabilities_do_not_depend_on_the_other_rows(width: int) -> None:
    logits, tokens = torch.randn(64, width) * 3, torch.randint(2, width, (64, 50))
    together = NextTokens(logits.clone(), (0, 1)).log_probabilities(tokens)
    for rows in (slice(0, 1), slice(7, 9), slice(20, 63)):
        alone = NextTokens(logits[rows].clone(), (0, 1)).log_probabilities(tokens[rows])
        assert torch.equal(alone, together[rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [5, 300, 4097, 8000])
def test_the_most_probable_is_the_first_of_equals(width: int, dtype: torch.dtype) -> None:
    logits = torch.randn(64, width, generator=torch.Generator().manual_seed(3)).to(dtype)
    logits[::2, -2:] = 7.0
    logits[::3, 0] = 9.0
    expected = logits.float().numpy()[:, 1:].argmax(axis=1) + 1
    unscored = NextTokens(logits.clone(), (0,), scored=False)
    np.testing.assert_array_equal(NextTokens(logits, (0,)).most_probable().numpy(), expected)
    np.testing.assert_array_equal(unscored.most_probable().numpy(), expected)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("width", [70, 4000])
@pytest.mark.parametrize("highest", [-3.0, -0.0, 0.0, 1e-38])
def test_the_most_probable_of_rows_without_a_number_above_zero(width: int, highest: float, scored: bool) -> None:
    """Their bits are not in the order of the numbers; nor are the zeros two numbers."""
    logits = -torch.rand(64, width, generator=torch.Generator().manual_seed(4)).bfloat16() * 50 - 4
    logits[:, width - 3 :] = highest
    logits[1::2, width // 2] = abs(highest) if abs(highest) < 1 else highest
    expected = logits.float().numpy()[:, 1:].argmax(axis=1) + 1
    np.testing.assert_array_equal(NextTokens(logits, (0,), scored=scored).most_probable().numpy(), expected)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(5, 900),
    beam=st.integers(1, 5),
    levels=st.sampled_from([1, 2, 5, 40, 10**7]),
    half=st.booleans(),
)
def test_the_best_continuations_are_those_of_all_sums(
    seed: int, width: int, beam: int, levels: int, half: bool
) -> None:
    """Largest first; of equals the better hypothesis, then the lower token. Dead hypotheses have none."""
    generator = np.random.default_rng(seed)
    drawn = (generator.integers(-levels, levels + 1, size=(3 * beam, width)) / 7).astype(np.float32)
    logits = torch.from_numpy(drawn).to(torch.bfloat16 if half else torch.float32)
    before = torch.from_numpy(-generator.random((3, beam)).astype(np.float32)).sort(dim=1, descending=True).values
    before[0, 1:] = -torch.inf
    following = NextTokens(logits, (0, 2))
    result = following.best(before, 2 * beam)
    every = following.log_probabilities(torch.arange(width).expand(len(logits), -1))
    sums = (every.view(3, beam, width) + before.unsqueeze(2)).flatten(1).numpy()
    ranked = np.argsort(-sums, axis=1, kind="stable")[:, : 2 * beam]
    np.testing.assert_array_equal(result.values.numpy(), np.take_along_axis(sums, ranked, axis=1))
    possible = result.values.numpy() > -np.inf
    # which of the impossible ones fill up does not matter
    np.testing.assert_array_equal(result.rows.numpy()[possible], ranked[possible] // width)
    np.testing.assert_array_equal(result.columns.numpy()[possible], ranked[possible] % width)
    assert int(result.columns.max()) < width
