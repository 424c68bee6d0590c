"""Which part a combination belongs to: by a hash of its words alone, in the shares that the split has."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest
from tools.phrasebook import generate
from tools.phrasebook.generate import Combination, assigned_part, part_of_sentence
from tools.phrasebook.nominals import Dice

COMBINATIONS = [(f"noun{n % 97}", f"verb{n % 89}", f"thing{n}") for n in range(20_000)]


def test_a_part_follows_from_the_words_alone() -> None:
    for combination in COMBINATIONS[:500]:
        digest = blake2b("|".join(combination).encode(), digest_size=8).digest()
        bucket = int.from_bytes(digest, "big") % 100
        expected = "test" if bucket < 4 else "validation" if bucket < 6 else "train"
        assert assigned_part(combination) == expected


def test_four_in_a_hundred_are_for_the_test_and_two_for_validation() -> None:
    counts = Counter(map(assigned_part, COMBINATIONS))
    for part, share in (("test", 0.04), ("validation", 0.02), ("train", 0.94)):
        # five standard deviations of a binomial distribution
        away = 5 * (share * (1 - share) / len(COMBINATIONS)) ** 0.5
        assert abs(counts[part] / len(COMBINATIONS) - share) < away  # type: ignore[index]


def combination_of(part: str, first: str = "he") -> Combination:
    return next(one for n in range(10_000) if assigned_part(one := (first, "see", f"thing{n}")) == part)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("train", "train"), "train"),
        (("train", "test"), "test"),
        (("validation", "train"), "validation"),
        (("test", "test"), "test"),
        (("test", "validation"), None),
    ],
)
def test_a_sentence_of_two_held_out_parts_belongs_to_none(
    parts: tuple[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "combinations", lambda _: tuple(map(combination_of, parts)))
    assert part_of_sentence(None) == expected  # type: ignore[arg-type]


def test_from_turkish_he_and_she_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = set()
    for number in range(300):
        own = []
        for pronoun in ("he", "she"):
            one = (pronoun, "see", f"thing{number}")
            monkeypatch.setattr(generate, "combinations", lambda _, one=one: (one,))
            own.append(part_of_sentence(None, "tr"))  # type: ignore[arg-type]
        assert own[0] == own[1] == assigned_part(("o", "see", f"thing{number}"))
        parts |= set(own)
    assert parts == {"train", "validation", "test"}


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.9, 1.0])
def test_a_chance_comes_true_with_its_probability(probability: float) -> None:
    dice = Dice(3)
    share = sum(dice.chance(probability) for _ in range(10_000)) / 10_000
    assert abs(share - probability) <= 5 * (probability * (1 - probability) / 10_000) ** 0.5
