"""The small BLEU of the textbook example."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat.evaluation import bleu_k

words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8).map(" ".join)


@pytest.mark.seed("E12")
@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("va !", "va !", 1.000),
        ("j'ai perdu .", "j'ai perdu .", 1.000),
        ("il est mouillé .", "il est calme .", 0.658),
        ("je suis chez .", "je suis chez moi .", 0.704),
        ("va", "va !", 0.368),
        ("A B", "A B C D E F", 0.135),
    ],
)
def test_values_of_the_book(prediction: str, reference: str, expected: float) -> None:
    assert bleu_k(prediction, reference, k=2) == pytest.approx(expected, abs=5e-4)


@pytest.mark.seed("E12")
def test_formula_written_out() -> None:
    # 4 of 5 words, 2 of 4 pairs; six words expected.
    expected = math.exp(1 - 6 / 5) * (4 / 5) ** (1 / 2) * (2 / 4) ** (1 / 4)
    assert bleu_k("a b c x d", "a b c d e f", k=2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.seed("E12")
def test_a_word_of_the_reference_counts_once() -> None:
    assert bleu_k("the the the the", "the cat sat down", k=1) == pytest.approx((1 / 4) ** 0.5)


@pytest.mark.seed("F39")
@pytest.mark.parametrize(
    ("prediction", "expected"), [("", 0.0), ("   ", 0.0), ("va", math.exp(-1)), ("!", math.exp(-1))]
)
def test_a_prediction_shorter_than_k_does_not_divide_by_zero(prediction: str, expected: float) -> None:
    assert bleu_k(prediction, "va !", k=2) == pytest.approx(expected)
    assert bleu_k(prediction, "va !", k=4) == pytest.approx(expected)


@pytest.mark.seed("F39")
def test_empty_reference() -> None:
    assert bleu_k("va !", "") == 0.0
    assert bleu_k("", "") == 1.0


@pytest.mark.seed("F39")
@given(words, words, st.integers(1, 5))
def test_always_between_0_and_1_and_1_only_when_nothing_is_wrong(prediction: str, reference: str, k: int) -> None:
    assert 0.0 <= bleu_k(prediction, reference, k) <= 1.0
    assert bleu_k(reference, reference, k) == 1.0


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        bleu_k("a", "a", k=0)
