"""Text as people write it becomes text in the characters that a model has met."""

from __future__ import annotations

import unicodedata

import pytest

from dikkat_runtime.text.normalizing import has_hidden_direction, normalized

KNOWN = frozenset(map(chr, range(32, 127))) | set("éèçşığüÉ")


@pytest.mark.parametrize("code", [0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000, 9])
def test_white_space_of_every_kind_is_one_plain_space(code: int) -> None:
    assert unicodedata.category(chr(code)) in ("Zs", "Cc")
    assert normalized(f"a{chr(code)}b {chr(code)} c", KNOWN) == "a b c"


@pytest.mark.parametrize(
    "code",
    [0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x2066, 0x206A), 0xFEFF],
)
def test_invisible_marks_are_gone(code: int) -> None:
    assert unicodedata.category(chr(code)) == "Cf"
    assert normalized(f"{chr(code)}sm{chr(code)}all{chr(code)}", KNOWN) == "small"


def test_joiners_stay_where_letters_or_emoji_are_spelled_with_them() -> None:
    assert normalized("می\u200cخواهم", KNOWN) == "می\u200cخواهم"
    assert normalized("क्\u200dष", KNOWN) == "क्\u200dष"
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert normalized(f"a {family}", KNOWN) == f"a {family}"
    assert normalized("heart \u2764\ufe0f\u200d\U0001f525", KNOWN) == "heart \u2764\ufe0f\u200d\U0001f525"
    assert normalized("sm\u200dall \u200d", KNOWN) == "small "


def test_no_break_spaces_stay_inside_numbers() -> None:
    assert normalized("1\u00a0000\u202f000\u00a0km", KNOWN) == "1\u00a0000\u00a0000 km"


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("“quoted” ‘so’", "\"quoted\" 'so'"),
        ("it’s – here…", "it's - here..."),
        ("ＡＢＣ１２３！", "ABC123!"),
        ("ﬁne", "fine"),
        ("cafe\u0301", "café"),
    ],
)
def test_variants_become_what_the_model_knows(written: str, plain: str) -> None:
    assert normalized(written, KNOWN) == plain


def test_variants_that_the_model_knows_stay() -> None:
    assert normalized("it’s “so”", KNOWN | set("’“”")) == "it’s “so”"
    assert normalized("…", frozenset("abc")) == "…"


def test_exponents_and_letters_of_other_scripts_stay() -> None:
    text = "m² ½ 猫 мир £"
    assert normalized(text, KNOWN) == text


def test_line_breaks_stay() -> None:
    assert normalized("a\rb\x0bc\u2028d\x85e", KNOWN) == "a\rb\x0bc\u2028d\x85e"


def test_controls_that_hide_an_order_are_seen() -> None:
    assert has_hidden_direction("price \u202e001")
    assert not has_hidden_direction("price 100 \u200e")
