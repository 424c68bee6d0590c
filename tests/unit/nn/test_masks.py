"""Masks, entry by entry."""

from __future__ import annotations

import pytest
import torch

from dikkat.nn.masks import causal_mask, key_mask, length_mask, padding_mask


def test_a_query_sees_keys_up_to_its_own() -> None:
    mask = causal_mask(4)
    assert mask.shape == (1, 1, 4, 4)
    assert mask.dtype == torch.bool
    assert all(mask[0, 0, t, s].item() == (s <= t) for t in range(4) for s in range(4))


def test_with_more_keys_the_queries_are_the_last_ones() -> None:
    """Queries 3 and 4 of five positions: rows 3 and 4 of the whole mask."""
    assert torch.equal(causal_mask(2, 5)[0, 0], causal_mask(5)[0, 0, 3:])


def test_fewer_keys_than_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="as many keys as queries, but 3 < 4"):
        causal_mask(4, 3)


def test_padding_is_false_and_real_tokens_are_true() -> None:
    tokens = torch.tensor([[5, 1, 0], [2, 0, 0]])
    assert padding_mask(tokens).tolist() == [[True, True, False], [True, False, False]]
    assert padding_mask(tokens, pad_id=1).tolist() == [[True, False, True], [True, True, True]]


def test_lengths_become_masks() -> None:
    mask = length_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.tolist() == [[False, False, False], [True, True, False], [True, True, True]]


def test_a_key_mask_is_the_same_for_every_head_and_query() -> None:
    real = torch.tensor([[True, False, True], [False, True, True]])
    spread = key_mask(real).expand(2, 4, 5, 3)
    assert all(torch.equal(spread[:, head, query], real) for head in range(4) for query in range(5))
