"""Masks, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from dikkat.nn.masks import (
    causal_mask,
    distances,
    key_mask,
    length_mask,
    valid_length_mask,
    window_mask,
)

SQUARE: list[Callable[[int, int], object]] = [causal_mask, distances, partial(window_mask, window=1)]
"""What takes a number of queries and a number of keys."""


def test_a_query_sees_keys_up_to_its_own() -> None:
    mask = causal_mask(4)
    assert mask.shape == (1, 1, 4, 4)
    assert mask.dtype == torch.bool
    assert all(mask[0, 0, t, s].item() == (s <= t) for t in range(4) for s in range(4))


def test_with_more_keys_the_queries_are_the_last_ones() -> None:
    """Queries 3 and 4 of five positions: rows 3 and 4 of the whole mask."""
    assert torch.equal(causal_mask(2, 5)[0, 0], causal_mask(5)[0, 0, 3:])


def test_fewer_keys_than_queries_are_refused() -> None:
    """A window would otherwise come out silently, for other queries than were asked for."""
    for make in SQUARE:
        with pytest.raises(ValueError, match="source_length must be at least target_length = 4, not 3"):
            make(4, 3)


def test_lengths_become_masks() -> None:
    mask = length_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.tolist() == [[False, False, False], [True, True, False], [True, True, True]]


def test_a_key_mask_is_the_same_for_every_head_and_query() -> None:
    real = torch.tensor([[True, False, True], [False, True, True]])
    spread = key_mask(real).expand(2, 4, 5, 3)
    assert all(torch.equal(spread[:, head, query], real) for head in range(4) for query in range(5))


def test_no_query_is_refused() -> None:
    for make in SQUARE:
        with pytest.raises(ValueError, match="target_length must be at least 1, not 0"):
            make(0, 3)


def test_one_length_a_row_or_one_a_query() -> None:
    rows = valid_length_mask(torch.tensor([0, 2]), 3)
    assert rows.shape == (2, 1, 1, 3)
    assert rows[:, 0, 0].tolist() == [[False] * 3, [True, True, False]]
    queries = valid_length_mask(torch.tensor([[1, 3], [2, 0]]), 3)
    assert queries.shape == (2, 1, 2, 3)
    assert queries.sum(-1)[:, 0].tolist() == [[1, 3], [2, 0]]
    assert queries[0, 0, 0].tolist() == [True, False, False]


def test_lengths_that_are_none_are_refused() -> None:
    for lengths, inputs in (([4], 4), ([2, -1], -1)):
        with pytest.raises(ValueError, match=f"lengths must lie between 0 and size = 3, but one is {inputs}"):
            valid_length_mask(torch.tensor(lengths), 3)
    with pytest.raises(ValueError, match=r"lengths must have 1 or 2 dimensions .*, but has 3"):
        valid_length_mask(torch.ones(1, 1, 1, dtype=torch.int64), 3)


def test_distances_are_key_minus_query_and_the_queries_are_the_last() -> None:
    whole = distances(5, 5)
    assert all(whole[t, s] == s - t for t in range(5) for s in range(5))
    assert torch.equal(distances(2, 5), whole[3:])


@pytest.mark.seed("E22")
@pytest.mark.parametrize("window", [0, 1, 3, 9])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_window_and_global_tokens_entry_by_entry(window: int, first: int) -> None:
    mask = window_mask(6, window=window, global_tokens=first)
    for t in range(6):
        for s in range(6):
            assert mask[0, 0, t, s].item() == (abs(t - s) <= window or t < first or s < first)
    assert torch.equal(window_mask(2, 6, window=window, global_tokens=first), mask[..., 4:, :])


def test_a_window_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="window must be at least 0, not -1"):
        window_mask(3, window=-1)
    with pytest.raises(ValueError, match="global_tokens must be at least 0, not -2"):
        window_mask(3, window=1, global_tokens=-2)
