"""Baselines that have learned nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat.evaluation import copy_source, most_frequent_translation, scores

sentences = st.sampled_from(["a", "b", "c", "d", "e"])


def test_copy_source() -> None:
    assert copy_source(["Paris 2024", ""]) == ["Paris 2024", ""]


def test_a_seen_source_gets_its_own_most_frequent_target() -> None:
    pairs = [("Hi.", "Salut."), ("Hi.", "Salut !"), ("Hi.", "Salut !"), *[("Go.", "Va !")] * 5]
    assert most_frequent_translation(pairs, ["Hi.", "Go.", "Hi."]) == ["Salut !", "Va !", "Salut !"]


def test_an_unseen_source_gets_the_most_frequent_target_of_all() -> None:
    pairs = [("a", "x"), ("b", "y"), ("c", "y")]
    assert most_frequent_translation(pairs, ["never seen", "a"]) == ["y", "x"]


def test_ties_go_to_the_first() -> None:
    assert most_frequent_translation([("a", "x"), ("b", "y"), ("a", "y"), ("b", "x")], ["a", "z"]) == ["x", "x"]


def test_without_training_pairs_translations_are_empty() -> None:
    assert most_frequent_translation([], ["a"]) == [""]


@given(st.lists(st.tuples(sentences, sentences), min_size=1), st.lists(sentences))
def test_agrees_with_plain_counting(pairs: list[tuple[str, str]], sources: list[str]) -> None:
    overall = Counter(target for _, target in pairs).most_common(1)[0][0]
    expected = []
    for source in sources:
        own = Counter(target for seen, target in pairs if seen == source)
        expected.append(own.most_common(1)[0][0] if own else overall)
    assert most_frequent_translation(iter(pairs), sources) == expected


def test_memory_is_bounded_and_a_frequent_sentence_is_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "MAX_SENTENCES", 10)
    largest = 0
    frequencies = scores._Frequencies()
    for number in range(1000):
        frequencies.add("often" if number % 5 == 0 else f"once {number}")
        largest = max(largest, len(frequencies._counts))
    assert largest == 10
    # Misra and Gries: found for certain when it is more than 1/(10 + 1) of all.
    assert frequencies.most_frequent() == "often"
