"""Emoji, list marks and unknown signs are found whole; words, numbers and known signs are not."""

from __future__ import annotations

import pytest

from dikkat_runtime.text.normalizing import symbol_spans

KNOWN = frozenset(map(chr, range(128))) | set("éü€")


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in symbol_spans(text, KNOWN)]


@pytest.mark.parametrize(
    "emoji",
    [
        "😀",
        "❤️",
        "👍🏽",
        "👨‍👩‍👧‍👦",
        "🏳️‍🌈",
        "👩🏾‍🚀",
        "🇫🇷",
        "1️⃣",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "✅",
        "♪",
        "©",
        "™",
        "→",
        "│",
        "★",
        "☐",
    ],
)
def test_a_sign_is_one_span_wherever_it_stands(emoji: str) -> None:
    for text in (f"{emoji} The cat.", f"The {emoji} cat.", f"The cat. {emoji}", f"The{emoji}cat"):
        assert found(text) == [emoji]


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("• The cat", "•"),
        ("- The cat", "-"),
        ("3. The cat", "3."),
        ("12) The cat", "12)"),
        ("(4) The cat", "(4)"),
        ("b) The cat", "b)"),
        ("- [x] The cat", "- [x]"),
        ("– The cat", "–"),
    ],
)
def test_the_mark_of_a_list_is_a_symbol(text: str, marker: str) -> None:
    assert found(text) == [marker]


@pytest.mark.parametrize(
    "text",
    [
        "The cat.",
        "3.5 km",
        "-5 degrees",
        "20 °C",
        "m² and ½",
        "5 € (net)",
        "a - b",
        "Mr. Smith",
        "猫です",
        "мир",
        "1984",
        "A. Smith",
    ],
)
def test_words_numbers_and_known_signs_are_none(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("text", ["1. Dünya Savaşı 1914'te başladı.", "5. kat boş.", "3. Mai 2020 war schön."])
def test_an_ordinal_is_no_mark_of_a_list(text: str) -> None:
    assert symbol_spans(text, KNOWN | set("ıışğ"), has_ordinals=True) == []
    assert symbol_spans(f"• {text[3:]}", KNOWN | set("ıışğ"), has_ordinals=True) == [(0, 1)]


def test_neighbours_are_one_span() -> None:
    assert found("Hi 🎉🎉 🎂 all") == ["🎉🎉 🎂"]
    assert found("• ✅ Done") == ["• ✅"]
