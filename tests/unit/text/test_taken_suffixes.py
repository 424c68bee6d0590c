"""A Turkish word takes over the suffixes of another, by vowel harmony and with the letters that part vowels."""

from __future__ import annotations

import pytest

from dikkat_runtime.text.suffixes import are_suffixes, with_suffixes_of


@pytest.mark.parametrize(
    ("form", "written", "lemma", "expected"),
    [
        ("it", "köpek", "köpek", ["it"]),
        ("it", "köpeği", "köpek", ["iti"]),
        ("kedi", "köpeği", "köpek", ["kediyi", "kedisi"]),
        ("ağaç", "evden", "ev", ["ağaçtan"]),
        ("göz", "evlerde", "ev", ["gözlerde"]),
        ("kız", "evden", "ev", ["kızdan"]),
        ("dost", "annem", "anne", ["dostum"]),
        ("ana", "annem", "anne", ["anam"]),
        ("ev", "arabaya", "araba", ["eve"]),
        ("araba", "eve", "ev", ["arabaya"]),
        ("İstanbul", "Ankara'da", "", ["İstanbul'da"]),
        ("İzmir", "Ankara’dan", "Ankara", ["İzmir’den"]),
    ],
)
def test_suffixes_are_fitted_to_the_sounds_of_the_new_word(
    form: str, written: str, lemma: str, expected: list[str]
) -> None:
    ways = with_suffixes_of(form, written, lemma)
    assert set(expected) <= set(ways)
    assert ways[0] in expected
    assert all(are_suffixes(way[len(form) :].lstrip("'’")) for way in ways)


def test_where_the_stem_is_unknown_each_way_to_part_the_word_is_taken() -> None:
    ways = with_suffixes_of("dost", "kitabım", "")
    assert {"dost", "dostum"} <= set(ways)
    # a lemma that does not begin the word says nothing
    assert with_suffixes_of("dost", "kitabım", "araba") == ways
    assert with_suffixes_of("dost", "x") == ["dost"]


def test_the_possessive_of_the_first_person_follows_a_vowel() -> None:
    assert are_suffixes("m")
    assert are_suffixes("mdan")
