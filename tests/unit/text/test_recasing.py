"""Capitals and titles are recognised, read in usual case, and written by the rules of the target language."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dikkat_runtime.text.recasing import Case, case_of, cased, has_small_words, recased, upper, usual_forms

VOCABULARY = {"the", "dog", "sees", "Paris", "I", "is", "NATO", "köpek"}


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Return 1 for a word of the vocabulary, else one token a letter."""
    return [1 if text in VOCABULARY else len(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "case"),
    [
        ("THE DOG SEES PARIS.", "capitals"),
        ("STOP", "capitals"),
        ("STRAẞE 3", "capitals"),
        ("The Dog Sees Paris Today.", "titles"),
        ("The Dog Sees a Cat", "titles"),
        ("Éric Voit Le Chien", "titles"),
        ("Nine O'clock Will Come", "titles"),
        ("The dog sees Paris.", "usual"),
        ("Tom Smith", "usual"),
        ("I", "usual"),
        ("NATO troops", "usual"),
        ("Tom Smith and Mary Jones met Anna", "usual"),
        ("Der Hund sieht das Haus", "usual"),
        ("42 + 7", "usual"),
        ("3.5 GB", "usual"),
        ("猫です", "usual"),
    ],
)
def test_the_case_of_a_text(text: str, case: Case) -> None:
    assert case_of(text) == case


def test_names_stay() -> None:
    assert cased("voit Tom", "capitals", "fr", frozenset(["Tom"])) == "VOIT Tom"


def test_units_stay() -> None:
    for text in ("voit 5 mV, 5 km/h", "voit 3.5GB, 7 m/s"):
        assert cased(text, "capitals", "fr") == text.replace("voit", "VOIT")
        assert cased(text, "titles", "fr") == text.replace("voit", "Voit")


def test_each_word_is_read_in_the_form_with_the_fewest_tokens() -> None:
    assert recased("THE DOG SEES PARIS.", "capitals", "en", count_tokens) == "The dog sees Paris."
    assert recased("I SEES NATO", "capitals", "en", count_tokens) == "I sees NATO"
    assert recased("The Dog Sees Paris", "titles", "en", count_tokens) == "The dog sees Paris"
    assert recased("THE DOG SEES 5 DOGS AND 40 GB", "capitals", "en", count_tokens) == "The dog sees 5 dogs and 40 GB"


def test_words_have_the_form_that_most_sentences_show() -> None:
    texts = ["I see a dog.", "A dog sees Tom and a McDonald's.", "We see Tom at McDonald's in a US car.", "THE A TEAM"]
    texts += ["This is a US dog, and the dog is a Dog.", "Once Again"]
    texts += ["Snow is cold.", "Snow falls."]
    # "car" is there only once, and what begins a sentence says nothing of its form
    forms = usual_forms(texts, "en")
    assert forms == ["a", "dog", "is", "and", "McDonald's", "see", "snow", "Tom", "US"]
    usual = {form.lower(): form for form in forms}
    assert recased("TOM SEES A DOG IN US", "capitals", "en", count_tokens, usual) == "Tom sees a dog in US"
    assert recased("A Mcdonald's Is a Dog", "titles", "en", count_tokens, usual) == "A McDonald's is a dog"
    assert usual_forms(["Bu IŞIK, bu IŞIK."], "tr") == ["bu", "IŞIK"]


def test_turkish_and_german_have_their_own_capitals() -> None:
    assert upper("istanbul ılık", "tr") == "İSTANBUL ILIK"
    assert upper("istanbul", "en") == "ISTANBUL"
    assert cased("die straße", "capitals", "de") == "DIE STRASSE"
    assert recased("KÖPEK IŞIK İSTER", "capitals", "tr", lambda texts: [1] * len(texts)) == "Köpek ışık ister"
    assert cased("ılık süt iyi", "titles", "tr") == "Ilık Süt İyi"


def test_a_title_may_leave_short_words_small() -> None:
    assert cased("le chien et la maison", "titles", "fr") == "Le Chien Et La Maison"
    assert cased("le chien et la maison", "titles", "fr", keeps_small=True) == "Le Chien et la Maison"
    assert has_small_words("Lord of the Rings")
    assert not has_small_words("Lord Of The Rings")
