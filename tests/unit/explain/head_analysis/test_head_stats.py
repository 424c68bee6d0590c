"""Portraits of heads that do one thing."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from dikkat.explain.head_analysis.head_stats import HeadStats, HeadStatsCollector
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.nn.recorder import MapName

WORDS = ("▁dogs", "▁see", "▁cats", "▁.", "<eos>")


def stats(*heads: np.ndarray, stack: str = "encoder", kind: Literal["self", "cross"] = "self") -> list[HeadStats]:
    """Of heads with the tokens of `WORDS` on the keys."""
    collector = HeadStatsCollector()
    collector.add(MapName(stack, 0, kind), np.stack(heads), WORDS[: heads[0].shape[0]], WORDS[: heads[0].shape[1]])
    return [collector.of(HeadName(stack, 0, kind, number)) for number in range(len(heads))]


def test_places() -> None:
    before, after = np.eye(5, k=-1), np.eye(5, k=1)
    before[0, 0] = after[4, 4] = 1.0
    marks, signs, first = np.zeros((3, 5, 5))
    marks[:, 4] = signs[:, 3] = first[:, 0] = 1.0
    result = stats(before, np.eye(5), after, marks, signs, first)
    # rows that look at the punctuation or at the end mark are told as that first
    assert [item.target for item in result] == ["before", "same", "after", "marks", "punctuation", "first"]
    assert [item.target_share for item in result] == pytest.approx([0.6, 0.6, 0.4, 1.0, 1.0, 0.6])
    assert [item.distance for item in result] == pytest.approx([0.8, 0.0, 0.8, 2.0, 1.4, 2.0])
    assert {item.entropy for item in result} == {0.0}


def test_evenly_spread_attention_is_drawn_nowhere() -> None:
    (result,) = stats(np.full((5, 5), 0.2))
    assert result.entropy == pytest.approx(math.log(5))
    assert result.entropy_share == pytest.approx(1.0)
    assert (result.target, result.target_share) == (None, 0.0)


def test_under_a_causal_mask_the_first_rows_have_less_to_spread_over() -> None:
    even = np.tri(4) / np.arange(1, 5)[:, None]
    (result,) = stats(even, stack="decoder")
    assert result.entropy == pytest.approx((math.log(1) + math.log(2) + math.log(3) + math.log(4)) / 4)
    assert result.entropy_share == pytest.approx(1.0)
    assert result.target is None
    (alone,) = stats(np.ones((1, 1)), stack="decoder")
    assert (alone.entropy, alone.entropy_share) == (0.0, 0.0)


def test_cross_attention_is_placed_by_what_is_written() -> None:
    (result,) = stats(np.eye(3, 5), stack="decoder", kind="cross")
    assert (result.target, result.target_share, result.distance) == ("same", 1.0, 0.0)


def test_tokens_count_alike_over_sentences() -> None:
    collector, name = HeadStatsCollector(), MapName("encoder", 2, "self")
    collector.add(name, np.eye(2)[None], WORDS[:2], WORDS[:2])
    collector.add(name, np.full((1, 3, 3), 1 / 3), WORDS[:3], WORDS[:3])
    result = collector.of(HeadName("encoder", 2, "self", 0))
    assert result.entropy == pytest.approx(3 * math.log(3) / 5)
    assert result.entropy_share == pytest.approx(3 * math.log(3) / (2 * math.log(2) + 3 * math.log(3)))
    # away from itself: rows of three tokens are 1, 2/3 and 1 away on average
    assert result.distance == pytest.approx((0 + 0 + 1 + 2 / 3 + 1) / 5)


def test_a_head_that_was_not_seen() -> None:
    with pytest.raises(KeyError):
        HeadStatsCollector().of(HeadName("encoder", 0, "self", 0))
