"""Heads of known maps beside a known occlusion, and the choice among them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dikkat.evaluation.alignment_error import parse_alignments
from dikkat.explain.head_analysis.alignment_head import Agreements, WordNumbers, choose_alignment_head, word_links
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.nn.recorder import MapName

CROSS = MapName("decoder", 1, "cross")
# three written tokens of two words, and the end mark; three source tokens of two words, and the end mark
WORDS = WordNumbers(source=(0, 0, 1), target=(0, 1, 1))
NEEDED = np.array([[3.0, 0.1, 0.2, 9.0], [0.0, 0.1, 2.0, 0.3], [0.1, 1.0, -4.0, 0.0], [0.0, 0.0, 0.0, 5.0]])


def looking_at(*keys: int, weight: float = 0.7) -> np.ndarray:
    """(4, 4), each row with most of its weight on one key."""
    weights = np.full((4, 4), (1 - weight) / 3)
    weights[range(4), keys] = weight
    return weights


def head(number: int) -> HeadName:
    return HeadName("decoder", 1, "cross", number)


def test_agreement_is_on_words_alone() -> None:
    """The end mark is needed most by the first token, but it is no word; its own row does not count."""
    agreements = Agreements()
    maps = np.stack([looking_at(0, 2, 1, 0), looking_at(1, 2, 2, 3), looking_at(3, 2, 1, 3)])
    agreements.add(CROSS, maps, NEEDED, NEEDED, WORDS)
    result = agreements.results()
    assert [result[head(n)].occlusion for n in range(3)] == pytest.approx([1.0, 1 / 3, 1.0])
    assert [result[head(n)].on_needed for n in range(3)] == pytest.approx([0.7, 0.3, 0.5])
    assert choose_alignment_head(result) == head(0), "of two that always agree the one with more weight there"
    assert result[head(0)].scores is None


def test_tokens_count_alike_over_sentences() -> None:
    agreements = Agreements()
    agreements.add(CROSS, looking_at(0, 2, 1, 0)[None], NEEDED, NEEDED, WORDS)
    one = np.ones((2, 2))
    agreements.add(CROSS, np.array([[[0.4, 0.6], [0.5, 0.5]]]), one, one, WordNumbers((0,), (0,)))
    agreements.add(CROSS, looking_at(1, 1, 0, 0)[None], NEEDED, NEEDED, WORDS)
    assert agreements.results()[head(0)].occlusion == pytest.approx((3 + 1 + 0) / 7)


def test_correlations() -> None:
    agreements = Agreements()
    weights = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    like, unlike = np.array([[5.0, -3.0, 1.0], [0.0, 1.0, -2.0]]), np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    agreements.add(CROSS, weights[None], like, unlike, WordNumbers((0, 1), (0,)))
    result = agreements.results()[head(0)]
    assert result.occlusion_correlation == pytest.approx(1.0)
    assert result.gradient_correlation == pytest.approx(-1.0), "the row without an order does not count"
    flat = Agreements()
    flat.add(CROSS, weights[None], np.ones((2, 3)), like, WordNumbers((0, 1), (0,)))
    assert math.isnan(flat.results()[head(0)].occlusion_correlation)
    assert flat.results()[head(0)].gradient_correlation == pytest.approx(1.0)


def test_words_are_linked_by_any_of_their_tokens() -> None:
    assert word_links(looking_at(0, 2, 1, 3), WORDS) == {(0, 0), (1, 1), (0, 1)}


def test_gold_is_the_better_judge() -> None:
    agreements = Agreements(parse_alignments(["0-0 1-1"], "gold"))
    agreements.add(CROSS, np.stack([looking_at(0, 2, 1, 0), looking_at(1, 2, 2, 3)]), NEEDED, NEEDED, WORDS)
    result = agreements.results()
    errors = [result[head(n)].scores for n in range(2)]
    # head 0 finds (0,0) (1,1) (0,1): 1 - (2 + 2) / (3 + 2)
    assert [item.error for item in errors if item] == pytest.approx([1 / 5, 0.0])
    assert choose_alignment_head(result) == head(1)


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="empty"):
        choose_alignment_head({})
