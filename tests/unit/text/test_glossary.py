"""Glossaries: where terms occur, what a file must be like, and which words are a term with its suffixes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.text.demanded import Demanded, measures, unmet
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.suffixes import are_suffixes, begins_suffixes


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The bank and the Bank of BANK, not banks or embank.", ["bank", "bank", "bank"]),
        ("IT is it, not It.", ["IT"]),
        ("New York and York, in new york.", ["New York", "York"]),
        ("Ankara'dan gelen", ["Ankara"]),
        ("C++ and C", ["C++"]),
    ],
)
def test_terms_are_found_as_words_of_their_own(text: str, terms: list[str]) -> None:
    glossary = Glossary.of(dict.fromkeys(("bank", "IT", "York", "New York", "Ankara", "C++"), "x"))
    assert [term.source for _, _, term in glossary.occurrences(text)] == terms
    for start, end, term in glossary.occurrences(text):
        assert text[start:end].lower() == term.source.lower()


def test_capitals_are_those_of_the_language() -> None:
    assert list(Glossary.of({"ışık": "x"}, "tr").occurrences("Işık"))
    assert list(Glossary.of({"iyi": "x"}, "tr").occurrences("İyi"))
    assert not list(Glossary.of({"iyi": "x"}, "tr").occurrences("Iyi"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\tb\n\nc\td\n", ":2: an empty row"),
        ("a\tb\n\tx\n", ":2: the term is empty"),
        ("a\t\n", ":1: the translation is empty"),
        ("a\tb|\n", ":1: the translation is empty"),
        ("a b\n", ":1: must be a term, one tab"),
        ("a\tb\tc\n", ":1: must be a term, one tab"),
        ("a\tb\nx\ty\na\tb\n", ":3: a is already in line 1"),
        ("a\tb|c\na\tc|b\n", ":2: a is already in line 1"),
        ("a\tb\na\tc\n", ":2: a is translated differently in line 1; write both as b|c"),
        ("", "has no terms"),
        ("a\tb\n\udcff", ":2: not valid UTF-8"),
    ],
)
def test_a_wrong_row_is_told_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError) as caught:
        Glossary.read(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_has_several_forms_a_row(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("\ufeffbook\tkitap | kitab\r\nNew York\tNew York\n", encoding="utf-8")
    assert [(term.source, term.targets) for term in Glossary.read(path).terms] == [
        ("book", ("kitap", "kitab")),
        ("New York", ("New York",)),
    ]
    with pytest.raises(MissingInputError):
        Glossary.read(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("text", "form", "holds"),
    [
        ("Ankara'da bir ev.", "Ankara", True),
        ("Ankarada bir ev.", "Ankara", True),
        ("kitaplarımızdan biri", "kitap", True),
        ("arabasıyla geldi", "araba", True),
        ("Kitap burada.", "kitap", True),
        ("Orada. İyi bir şey", "iyi", True),
        ("Bu Kitap", "kitap", False),
        ("bir karar", "kar", False),
        ("kar, kar", "kar", False),
        ("sekar", "kar", False),
        ("15 km", "5 km", False),
        ("(5 km)", "5 km", True),
        ("1,5 km", "5 km", False),
    ],
)
def test_a_form_may_have_turkish_suffixes_and_nothing_else(text: str, form: str, holds: bool) -> None:
    assert (unmet(text, [Demanded((form,))], suffixes=True) == []) == holds


def test_suffixes_follow_each_other_and_vowel_harmony_is_not_mixed_up_with_other_letters() -> None:
    for letters in ("", "lar", "larımızdan", "ın", "yla", "daki", "dır", "sız", "ğ"[:0]):
        assert are_suffixes(letters)
        assert begins_suffixes(letters[:2])
    for letters in ("x", "lor", "larx", "aar"):
        assert not are_suffixes(letters)
    assert begins_suffixes("la")
    assert not begins_suffixes("x")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("It is 5 km away.", ["5 km", "5\u00a0km", "5km"]),
        ("1,234.5 kg", ["1.234,5 kg", "1 234,5 kg", "1234.5kg"]),
        ("30% off", ["%30", "30 %"]),
        ("$20", ["20 $", "$20"]),
        ("3.5 GB", ["3,5 GB"]),
        ("It is −5 °C.", ["-5 °C", "−5°C"]),
        ("-$20", ["-20 $", "−$20"]),
        ("10 000 km", ["10.000 km", "10,000 km", "10000 km", "10\u00a0000 km"]),
        ("1 234,5 kg", ["1,234.5 kg", "1234.5 kg"]),
    ],
)
def test_numbers_with_units_may_be_written_as_languages_do(text: str, written: list[str]) -> None:
    (demand,) = measures(text)
    for item in written:
        assert unmet(f"x {item}, y", [demand], suffixes=False) == []
    for other in ("x", "5 °C", "$20 20 $", "000 km", "234,5 kg"):
        assert unmet(other, [demand], suffixes=False) == [demand] or other == "$20 20 $" == text
    start, end = demand.spans[0]
    assert text[start:end] == demand.source


def test_numbers_without_a_unit_are_left_to_the_model() -> None:
    assert measures("2 dogs, 5 miles, v1.2, 10:30") == ()
