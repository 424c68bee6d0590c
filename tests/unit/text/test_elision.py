"""The words before a replaced word fit its first sound, in French and English; other languages have no such rule."""

from __future__ import annotations

import pytest

from dikkat_runtime.tasks.term_placement import Ending, fitted


@pytest.mark.parametrize(
    ("before", "old", "new", "expected"),
    [
        ("Il voit l'", "homme", "monsieur", ["Il voit le ", "Il voit la "]),
        ("L’", "homme", "monsieur", ["Le ", "La "]),
        ("loin de l'", "ami", "voisin", ["loin du ", "loin de la "]),
        ("il va à l'", "école", "gare", ["il va au ", "il va à la "]),
        ("Je parle d'", "Anna", "Sara", ["Je parle de "]),
        ("parce qu'", "elle", "lui", ["parce que "]),
        ("cet ", "homme", "voisin", ["ce "]),
        ("mon ", "amie", "voisine", ["mon ", "ma "]),
        ("mon ", "voisin", "chat", ["mon "]),
        ("un vieil ", "ami", "voisin", ["un vieux "]),
        ("le ", "chien", "animal", ["l'"]),
        ("du ", "chien", "éléphant", ["de l'"]),
        ("de la ", "soupe", "eau", ["de l'"]),
        ("Ma ", "voisine", "amie", ["Mon "]),
        ("ce ", "chien", "animal", ["cet "]),
        # an h may be silent
        ("le ", "chien", "hibou", ["le ", "l'"]),
        ("Une ", "soupe", "eau", ["Une "]),
        # a word that only ends like one of them
        ("seul ", "chien", "animal", ["seul "]),
        ("parle ", "chien", "animal", ["parle "]),
        ("", "chien", "animal", [""]),
    ],
)
def test_french_is_elided(before: str, old: str, new: str, expected: list[str]) -> None:
    assert [ending.text for ending in fitted(before, old, new, "fr_FR")] == expected


def test_an_article_shows_the_gender_that_elision_hides() -> None:
    assert fitted("Il voit l'", "homme", "monsieur", "fr") == [
        Ending("Il voit le ", "Il voit un "),
        Ending("Il voit la ", "Il voit une "),
    ]
    assert [ending.probe for ending in fitted("De l’", "ami", "voisin", "fr")] == ["D’un ", "D’une "]
    assert [ending.probe for ending in fitted("cet ", "ami", "voisin", "fr")] == [""]


def test_english_has_a_and_an() -> None:
    assert [ending.text for ending in fitted("It is a ", "dog", "ox", "en")] == ["It is an "]
    assert [ending.text for ending in fitted("An ", "ox", "dog", "en")] == ["A "]
    assert [ending.text for ending in fitted("a ", "minute", "hour", "en")] == ["a ", "an "]


def test_other_languages_stay_as_they_are() -> None:
    assert fitted("l'", "homme", "monsieur", "tr") == [Ending("l'")]
    assert fitted("l'", "homme", "monsieur", "") == [Ending("l'")]
