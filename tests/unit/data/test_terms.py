"""Words are linked as IBM model 1 says, and copies of pairs hold terms behind their source words."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import numpy as np
import pytest

from dikkat.data.pairs import Pair
from dikkat.data.terms import pairs_with_terms
from dikkat.data.word_alignment import NEAR, ROUNDS, WordAligner
from dikkat_runtime.text.suffixes import are_suffixes

ENGLISH, FRENCH, TURKISH = (
    tuple(first + rest for first in ("ba", "ke", "lo", "mu", "si") for rest in rests)
    for rests in (
        ("nder", "stal", "ping", "rith", "vosk", "brum"),
        ("chon", "gnet", "rdac", "zique", "lmont", "frage"),
        ("kesi", "rpek", "mare", "şok", "prü", "hçe"),
    )
)
"""Words that mean nothing: none is in a tenth of the sentences, as articles are."""
TERM = re.compile("(\\w+)\u0002 (.*?)\u0003")


def pairs(words: tuple[str, ...], form: str, count: int = 900) -> list[Pair]:
    """Return pairs that name two things each."""
    chance = random.Random(1)
    chosen = [chance.sample(range(len(words)), 2) for _ in range(count)]
    return [
        Pair(f"The {ENGLISH[a]} sees the {ENGLISH[b]}.", form.format(words[a], words[b]), line, (0, 1))
        for line, (a, b) in enumerate(chosen)
    ]


def test_probabilities_are_those_of_the_formula() -> None:
    texts = [
        ("a cat", "un chat"),
        ("the cat", "le chat"),
        ("the cat eats", "le chat mange bien"),
        ("a dog", "un chien"),
    ]
    words = [(source.split(), target.split()) for source, target in texts]

    def learned(turned: bool) -> dict[tuple[str, str], float]:
        """Return the probability of each word of the target, given one of the source, by expectation maximisation."""
        known: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
        for _ in range(ROUNDS):
            counts, totals = defaultdict[tuple[str, str], float](float), defaultdict[str, float](float)
            for source, target in [pair[::-1] for pair in words] if turned else words:
                for column, other in enumerate(target):
                    near = [
                        np.exp(-NEAR * abs((row + 0.5) / len(source) - (column + 0.5) / len(target)))
                        for row in range(len(source))
                    ]
                    weights = [known[own, other] * prior for own, prior in zip(source, near, strict=True)]
                    for own, weight in zip(source, weights, strict=True):
                        counts[own, other] += weight / sum(weights)
                        totals[own] += weight / sum(weights)
            known = defaultdict(float, {pair: count / totals[pair[0]] for pair, count in counts.items()})
        return known

    forward, backward = learned(False), learned(True)
    aligner = WordAligner.fit(words)
    assert len(aligner.scores) == len(forward)
    for (source, target), probability in forward.items():
        expected = (probability * backward[target, source]) ** 0.5
        assert aligner.scores[source, target] == pytest.approx(expected, rel=1e-9)
    assert aligner.links(["the", "dog"], ["le", "chien"]) == [(0, 0), (1, 1)]
    assert aligner.links(["no", "word"], ["le", "chien"]) == []
    assert aligner.share("cat") == 0.75
    assert WordAligner.fit([]).links(["a"], ["b"]) == []


def test_a_share_of_the_pairs_comes_once_more_with_terms() -> None:
    known = dict(zip(ENGLISH, FRENCH, strict=True))
    every = pairs(FRENCH, "Le {} voit le {}.")
    copies = list(pairs_with_terms(every, 0.5, "fr", seed=3))
    assert 380 < len(copies) < 520
    own = foreign = 0
    for copy in copies:
        original, terms = every[copy.line], TERM.findall(copy.source)
        assert TERM.sub(r"\1", copy.source) == original.source
        assert (len(terms) > 0, copy.link) == (True, None)
        expected = original.target
        for word, term in terms:
            is_own = term == known[word]
            own, foreign = own + is_own, foreign + (not is_own)
            # whatever the term is, the target has it where the word's translation stood
            expected = re.sub(rf"\b{known[word]}\b", term, expected)
        assert copy.target == expected
    assert own > 100
    assert foreign > 100
    assert copies == list(pairs_with_terms(every, 0.5, "fr", seed=3))
    assert copies != list(pairs_with_terms(every, 0.5, "fr", seed=4))
    assert list(pairs_with_terms(every, 0.0, "fr", seed=3)) == []


def test_turkish_terms_have_no_suffixes_and_the_target_has_them() -> None:
    every = pairs(TURKISH, "Burada {}, şurada {}.") + pairs(TURKISH, "Bir {} uzakta, {}ler yakında.")
    with_suffix = 0
    for copy in pairs_with_terms(every, 1.0, "tr", seed=2):
        for _, term in TERM.findall(copy.source):
            written = [word for word in re.findall(r"\w+", copy.target) if word.lower().startswith(term.lower())]
            assert written, copy
            assert any(are_suffixes(word[len(term) :]) for word in written)
            with_suffix += all(len(word) > len(term) for word in written)
    assert with_suffix > 20


def test_a_term_that_begins_a_sentence_is_written_as_inside_one() -> None:
    every = pairs(FRENCH, "Le {} voit le {}.") + [
        Pair(f"{word.capitalize()} sleeps.", f"{other.capitalize()} dort.", 900 + number)
        for number, (word, other) in enumerate(zip(ENGLISH * 5, FRENCH * 5, strict=True))
    ]
    known = dict(zip(ENGLISH, FRENCH, strict=True))
    first = [
        (word, term, copy.target)
        for copy in pairs_with_terms(every, 1.0, "fr", seed=2)
        for word, term in TERM.findall(copy.source)
        if word[0].isupper()
    ]
    assert len(first) > 100
    for word, term, target in first:
        assert term in (known[word.lower()], term.lower())
        assert target.startswith(f"{term[0].upper()}{term[1:]} ")
