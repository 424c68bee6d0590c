"""Lower-casing: Turkish and Azeri I/ı and İ/i, everything else as Python does it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat_runtime.text.casing import has_dotted_i, lower


@pytest.mark.seed("F40")
@pytest.mark.parametrize("language", ["tr", "tur", "az", "aze", "TR", "tr_TR", "tr-TR", "tr_TR.UTF-8"])
def test_turkish_capitals_find_their_small_letters(language: str) -> None:
    assert "ILIK İZMİR".lower() != "ılık izmir"  # the fault: str.lower knows one i only
    assert lower("ILIK İZMİR", language) == "ılık izmir"


@pytest.mark.seed("F40")
def test_a_combining_dot_above_makes_a_dotted_i() -> None:
    assert lower("I\u0307zmir", "tr") == "izmir"


@settings(max_examples=30)
@given(st.text(max_size=20))
def test_other_languages_are_lowered_as_python_does(text: str) -> None:
    assert lower(text) == lower(text, "en") == lower(text, "trv") == text.lower()


def test_only_turkish_and_azeri_pair_the_dotless_letters() -> None:
    assert [has_dotted_i(code) for code in ("tr", "az_AZ", "", "en", "fr", "trv", "atr")] == [True, True, *[False] * 5]
