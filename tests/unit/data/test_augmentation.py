"""Copies of pairs with the errors of hurried people."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher

import pytest

from dikkat.data.augmentation import augmented
from dikkat.data.pairs import Pair

PAIRS = [
    Pair(f"The small {word} sleeps in our garden.", f"Le petit {word} dort.", line, (1, 2))
    for line, word in enumerate(("cat", "dog", "horse", "mouse", "child") * 40)
]


def test_a_share_of_the_pairs_comes_once_more_with_typing_errors_in_the_source() -> None:
    copies = list(augmented(PAIRS, typing_errors=0.5, no_final_mark=0.0, seed=3))
    assert 70 < len(copies) < 130
    changed = Counter[int]()
    for copy in copies:
        original = PAIRS[copy.line]
        assert (copy.target, copy.link) == (original.target, None)
        words, typed = original.source.split(), copy.source.split()
        assert len(words) == len(typed)
        wrong = [(word, other) for word, other in zip(words, typed, strict=True) if word != other]
        for word, other in wrong:
            assert len(word.rstrip(".")) >= 4
            assert (word[0], abs(len(word) - len(other)) <= 1) == (other[0], True)
            assert SequenceMatcher(None, word, other).ratio() > 0.6
        changed[len(wrong)] += 1
    assert changed[1] > changed[2] > 0
    assert changed[0] == 0


@pytest.mark.parametrize(("language", "mark"), [("", "!"), ("tr", "!"), ("fr", "\u00a0!")])
def test_a_share_has_no_full_stop_or_an_exclamation_mark_on_both_sides(language: str, mark: str) -> None:
    pairs = [*PAIRS, *(Pair("Where is it?", "Où est-il ?", 1_000 + line) for line in range(200))]
    copies = list(augmented(pairs, typing_errors=0.0, no_final_mark=0.25, seed=1, target_language=language))
    assert 30 < len(copies) < 70
    for number, copy in enumerate(copies):
        source, target = (text[:-1] for text in (pairs[copy.line].source, pairs[copy.line].target))
        assert (copy.source, copy.target) == ((source + "!", target + mark) if number % 2 else (source, target))


def test_a_full_stop_of_chinese_becomes_its_exclamation_mark() -> None:
    pairs = [Pair("A dog.", "一只狗。", line) for line in range(2)]
    copies = list(augmented(pairs, typing_errors=0.0, no_final_mark=1.0, seed=1))
    assert [(copy.source, copy.target) for copy in copies] == [("A dog", "一只狗"), ("A dog!", "一只狗！")]


def test_equal_seeds_give_equal_copies_and_a_share_of_none_gives_none() -> None:
    def copies(seed: int) -> list[Pair]:
        return list(augmented(PAIRS, typing_errors=0.2, no_final_mark=0.1, seed=seed))

    assert copies(1) == copies(1) != copies(2)
    assert list(augmented(PAIRS, typing_errors=0.0, no_final_mark=0.0, seed=1)) == []
    assert list(augmented([Pair("Oh.", "Ah.", 1)], typing_errors=1.0, no_final_mark=0.0, seed=1)) == []
