"""ALiBi, Shaw's relative keys and T5's buckets, entry by entry."""

from __future__ import annotations

import math

import pytest
import torch

from dikkat.nn.masks import distances
from dikkat.nn.relative import AlibiBias, BucketBias, RelativeKeys, alibi_slopes, distance_buckets


def test_alibi_slopes_are_the_printed_ones() -> None:
    """Section 3: 1/2 ... 1/256 for eight heads; for sixteen, 1/2^0.5, 1/2^1, ... 1/2^8."""
    assert alibi_slopes(8) == [2.0**-head for head in range(1, 9)]
    assert alibi_slopes(16) == pytest.approx([2.0 ** (-head / 2) for head in range(1, 17)])
    # twelve heads: those of eight, then every other one of sixteen
    assert alibi_slopes(12) == pytest.approx([*alibi_slopes(8), *(2.0**-power for power in (0.5, 1.5, 2.5, 3.5))])
    assert [len(alibi_slopes(heads)) for heads in range(1, 20)] == list(range(1, 20))


def test_alibi_is_minus_slope_times_distance() -> None:
    bias = AlibiBias(4)(torch.randn(2, 4, 3, 5), 7)
    for head, slope in enumerate(alibi_slopes(4)):
        for t in range(3):
            for s in range(7):
                assert bias[head, t, s].item() == pytest.approx(-slope * abs(s - (t + 4)))


def test_relative_keys_are_products_with_the_vector_of_the_clipped_distance() -> None:
    module, query = RelativeKeys(5, max_distance=2), torch.randn(2, 3, 4, 5)
    bias = module(query, 6)
    for t in range(4):
        for s in range(6):
            vector = module.embedding[max(-2, min(2, s - (t + 2))) + 2]
            torch.testing.assert_close(bias[..., t, s], query[..., t, :] @ vector)


def bucket(away: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Raffel et al. (2020), section 2.1, for one distance, with the logarithm in exact powers checked below."""
    base = 0
    if bidirectional:
        buckets //= 2
        base, away = (buckets, away) if away > 0 else (0, -away)
    else:
        away = max(-away, 0)
    exact = buckets // 2
    if away < exact:
        return base + away
    ratio = math.log(away / exact) / math.log(max_distance / exact)
    return base + min(buckets - 1, exact + math.floor(ratio * (buckets - exact) + 1e-9))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (4, 3)])
def test_buckets_are_those_of_the_formula(buckets: int, max_distance: int, bidirectional: bool) -> None:
    result = distance_buckets(distances(300, 300), buckets, max_distance, bidirectional)
    assert result.min() >= 0
    assert result.max() < buckets
    for t in (0, 150, 299):
        for s in range(300):
            assert result[t, s].item() == bucket(s - t, buckets, max_distance, bidirectional)


def test_known_buckets_of_t5() -> None:
    """32 buckets to 128, both ways: 0 ... 7 alone, then 8-11, 12-15, 16-22, ..., from 91 on the last."""
    away = torch.tensor([[0, -1, -7, -8, -11, -12, -15, -16, -22, -23, -90, -91, -1000, 1, 1000]])
    expected = [0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 14, 15, 15, 17, 31]
    assert distance_buckets(away, 32, 128, True)[0].tolist() == expected


def test_bucket_bias_reads_its_table() -> None:
    module = BucketBias(3, bidirectional=False)
    bias = module(torch.randn(1, 3, 2, 4), 40)
    assert bias.shape == (3, 2, 40)
    for t, s in ((0, 0), (0, 37), (0, 38), (1, 0), (1, 39)):
        torch.testing.assert_close(bias[:, t, s], module.embedding[bucket(s - (t + 38), 32, 128, False)])


def test_buckets_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="num_buckets must be even and at least 4, not 3"):
        BucketBias(2, num_buckets=3)
    with pytest.raises(ValueError, match="max_distance must be above num_buckets / 2 = 16, not 16"):
        BucketBias(2, max_distance=16)


def test_queries_of_another_width_are_refused() -> None:
    message = "relative positions of head_dim = 8 cannot be compared with queries of width 4"
    with pytest.raises(ValueError, match=message):
        RelativeKeys(8)(torch.randn(1, 2, 3, 4), 3)
