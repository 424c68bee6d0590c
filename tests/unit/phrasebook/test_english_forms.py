"""English word forms against the spelling rules of the language."""

from __future__ import annotations

import pytest
from tools.phrasebook.english import comparative, indefinite_article, plural, progressive, third_person


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("cat", "cats"),
        ("box", "boxes"),
        ("church", "churches"),
        ("city", "cities"),
        ("boy", "boys"),
        ("photo", "photos"),
        ("tomato", "tomatoes"),
        ("bus", "buses"),
    ],
)
def test_plural(noun: str, expected: str) -> None:
    assert plural(noun) == expected


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("go", "goes"),
        ("carry", "carries"),
        ("play", "plays"),
        ("wash", "washes"),
        ("have", "has"),
        ("look at", "looks at"),
    ],
)
def test_third_person(verb: str, expected: str) -> None:
    assert third_person(verb) == expected


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("run", "running"),
        ("swim", "swimming"),
        ("write", "writing"),
        ("see", "seeing"),
        ("draw", "drawing"),
        ("play", "playing"),
        ("open", "opening"),
        ("eat", "eating"),
        ("wait for", "waiting for"),
        ("work", "working"),
        ("help", "helping"),
        ("dance", "dancing"),
        ("try", "trying"),
        ("visit", "visiting"),
    ],
)
def test_progressive(verb: str, expected: str) -> None:
    assert progressive(verb) == expected


@pytest.mark.parametrize(
    ("adjective", "expected"),
    [
        ("big", "bigger"),
        ("small", "smaller"),
        ("white", "whiter"),
        ("happy", "happier"),
        ("good", "better"),
        ("bad", "worse"),
        ("famous", "more famous"),
        ("tired", "more tired"),
        ("expensive", "more expensive"),
        ("quiet", "quieter"),
        ("sad", "sadder"),
        ("clean", "cleaner"),
        ("brave", "braver"),
        ("young", "younger"),
    ],
)
def test_comparative(adjective: str, expected: str) -> None:
    assert comparative(adjective) == expected


def test_indefinite_article() -> None:
    assert [indefinite_article(word) for word in ("apple", "cat", "old", "young")] == ["an", "a", "an", "a"]
