"""The baselines of language models and of vectors: Kneser-Ney and BM25 beside their formulas."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from dikkat.evaluation.bm25 import LENGTH, SATURATION, bm25_neighbours
from dikkat.evaluation.kneser_ney import KneserNey

VOCABULARY, ORDER, MARK = 7, 3, -1


def rows(seed: int, count: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [
        (generator.integers(0, VOCABULARY, 12) // 2 * (generator.integers(0, 2, 12) + 1)).tolist() for _ in range(count)
    ]


def by_formula(train: list[list[int]], context: tuple[int, ...], token: int) -> float:
    """Interpolated Kneser-Ney with dictionaries, as Chen and Goodman (1999) write it."""
    padded = [[MARK] * (ORDER - 1) + row for row in train]

    def counts(size: int) -> Counter[tuple[int, ...]]:
        ends = [(row, end) for row in padded for end in range(ORDER - 1, len(row))]
        if size == ORDER:
            return Counter(tuple(row[end - size + 1 : end + 1]) for row, end in ends)
        longer = {tuple(row[end - size : end + 1]) for row, end in ends}
        return Counter(gram[1:] for gram in longer)

    share = 1.0 / VOCABULARY
    for size in range(1, ORDER + 1):
        counted, history = counts(size), context[len(context) - size + 1 :]
        ones, twos = (sum(count == times for count in counted.values()) for times in (1, 2))
        discount = ones / (ones + 2 * twos) if ones else 0.5
        followers = {gram: count for gram, count in counted.items() if gram[:-1] == history}
        if total := sum(followers.values()):
            own = max(counted[(*history, token)] - discount, 0.0) / total
            share = own + discount * len(followers) / total * share
    return share


@pytest.mark.parametrize("context", [(MARK, MARK), (MARK, 2), (2, 4), (0, 6), (6, 6)])
def test_kneser_ney_is_that_of_the_formula(context: tuple[int, ...]) -> None:
    train = rows(1, 20)
    model = KneserNey(train, VOCABULARY, ORDER)
    found = model.probabilities([token for token in context if token != MARK])
    wanted = [by_formula(train, context, token) for token in range(VOCABULARY)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert found.sum() == pytest.approx(1.0)


def test_the_nats_of_texts_leave_out_their_first_tokens() -> None:
    train, (text,) = rows(1, 20), rows(9, 1)
    padded = [MARK, MARK, *text]
    wanted = -sum(
        math.log(by_formula(train, (padded[end - 2], padded[end - 1]), padded[end])) for end in range(3, len(padded))
    )
    assert KneserNey(train, VOCABULARY, ORDER).nats([text]) == pytest.approx(wanted)


def test_neighbours_by_bm25_are_those_of_the_formula() -> None:
    texts = ["the cat sat on the mat", "a cat and a dog", "the dog sat", "on and on it went", "mat and cat sat"]
    words = [text.split() for text in texts]
    frequency: dict[str, int] = defaultdict(int)
    for row in words:
        for word in set(row):
            frequency[word] += 1
    mean = sum(map(len, words)) / len(words)

    def score(query: list[str], document: list[str]) -> float:
        total = 0.0
        for word in query:
            count, rare = document.count(word), len(texts) - frequency[word] + 0.5
            damping = SATURATION * (1 - LENGTH + LENGTH * len(document) / mean)
            total += math.log(1 + rare / (frequency[word] + 0.5)) * count * (SATURATION + 1) / (count + damping)
        return total

    for number, found in enumerate(bm25_neighbours(texts, 2).tolist()):
        others = [index for index in range(len(texts)) if index != number]
        assert found == sorted(others, key=lambda index: -score(words[number], words[index]))[:2]
