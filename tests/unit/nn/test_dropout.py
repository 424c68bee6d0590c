"""Dropout: how many entries, how they are scaled, when at all, and that the generator decides."""

from __future__ import annotations

import pytest
import torch

from dikkat.kernels.dropout import keep_mask
from dikkat.nn.layers import Dropout, dropout

RATES = [0.001, 0.1, 0.3, 0.5, 0.9]


@pytest.mark.parametrize("probability", RATES)
def test_the_rate_is_the_probability(probability: float) -> None:
    entries = 400_000
    dropped = (keep_mask(torch.empty(entries), probability) == 0).double().mean().item()
    deviation = (probability * (1 - probability) / entries) ** 0.5
    assert abs(dropped - probability) < 5 * deviation + 2**-17


@pytest.mark.parametrize("probability", RATES)
def test_kept_entries_are_scaled_and_the_mean_stays(probability: float) -> None:
    """The probability is a multiple of 2**-16 and the scale that of the rounded one: the expectation is exactly 1."""
    mask = keep_mask(torch.empty(400_000), probability)
    kept = mask[mask > 0]
    rounded = round(probability * 65536) / 65536
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rounded)))
    deviation = (probability / (1 - probability) / mask.numel()) ** 0.5
    assert abs(mask.double().mean().item() - 1) < 5 * deviation


@pytest.mark.seed("B15")
@pytest.mark.usefixtures("either_path")
def test_one_thousand_draws_average_to_the_input() -> None:
    x = torch.rand(6, 6) + 0.5
    layer = Dropout(0.5)
    draws = torch.stack([layer(x) for _ in range(10_000)])
    assert set(torch.unique(draws / x).tolist()) == {0.0, 2.0}
    torch.testing.assert_close(draws[:1000].mean((0, 1, 2)), x.mean((0, 1)), rtol=0.02, atol=0)
    torch.testing.assert_close(draws.mean(0), x, rtol=0.06, atol=0)


def test_entries_are_independent() -> None:
    """Four neighbours come from one random number; their correlation must still vanish, as that of any other pair."""
    mask = (keep_mask(torch.empty(400_000), 0.5) > 0).double() - 0.5
    for distance in (1, 2, 3, 4, 5, 64, 1000):
        correlation = (4 * (mask[distance:] * mask[:-distance]).mean()).item()
        assert abs(correlation) < 5 / 400_000**0.5


def test_the_seed_decides() -> None:
    x = torch.ones(100)
    torch.manual_seed(7)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(7)
    assert torch.equal(dropout(x, 0.5), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (5,), (7, 3), (2, 3, 5), (1, 0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_odd_and_empty_sizes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    mask = keep_mask(torch.empty(shape, dtype=dtype), 0.5)
    assert mask.shape == shape
    assert mask.dtype == dtype
    assert set(mask.flatten().tolist()) <= {0.0, 2.0}


def test_a_transposed_tensor_is_dropped_by_entry() -> None:
    x = torch.rand(30, 50).t() + 1
    ratio = dropout(x, 0.5) / x
    assert set(torch.unique(ratio).tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("probability", [0.0, 0.5, 0.999])
def test_identity_in_evaluation(probability: float) -> None:
    layer, x, rest = Dropout(probability).eval(), torch.randn(4, 5), torch.randn(4, 5)
    assert torch.equal(layer(x), x)
    assert torch.equal(layer.add_to(rest, x), rest + x)


def test_identity_at_probability_zero_draws_nothing() -> None:
    layer, x, before = Dropout(0.0), torch.randn(4, 5), torch.get_rng_state()
    assert torch.equal(layer(x), x)
    assert torch.equal(layer.add_to(x, x), x + x)
    assert torch.equal(torch.get_rng_state(), before)


def test_add_to_is_the_sum_with_the_dropped() -> None:
    layer, x, rest = Dropout(0.4), torch.randn(4, 5), torch.randn(4, 5)
    torch.manual_seed(3)
    fused = layer.add_to(rest, x)
    torch.manual_seed(3)
    torch.testing.assert_close(fused, rest + layer(x))
    assert not torch.equal(fused, rest + x)


def test_the_gradient_passes_the_same_mask() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = dropout(x, 0.3)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_a_probability_just_below_one_stays_finite() -> None:
    assert torch.isfinite(dropout(torch.ones(10_000), 1 - 1e-9)).all()


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan")])
def test_a_probability_outside_its_range_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match=r"dropout probability must lie in \[0, 1\), not"):
        Dropout(probability)
    with pytest.raises(ValueError, match=r"dropout probability must lie in \[0, 1\), not"):
        dropout(torch.ones(2), probability)


def test_the_probability_is_shown() -> None:
    assert repr(Dropout(0.25)) == "Dropout(probability=0.25)"
