"""Words and lengths where no spaces are."""

from __future__ import annotations

import pytest

from dikkat.config import DataConfig
from dikkat.data.cleaning import Cleaner
from dikkat.data.pairs import Pair
from dikkat_runtime.text.pair_faults import num_words, width


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one two  three", 3),
        ("Ça va, naïve ışık?", 4),
        ("東京大学", 2),
        ("我喜欢这本书因为很有意思", 6),
        ("ฉันชอบหนังสือเล่มนี้มาก", 6),
        ("나는 책을 좋아한다", 3),
    ],
)
def test_words_are_counted_by_script(text: str, words: int) -> None:
    assert num_words(text) == words


def test_a_character_that_says_more_is_wider() -> None:
    assert (width("abc"), width("我a"), width("カナ"), width("책")) == (3, 4, 4, 2)


def _reasons(source: str, target: str) -> list[str]:
    cleaner = Cleaner(DataConfig())
    list(cleaner([Pair(source, target, 1)]))
    return list(cleaner.report.counts)


def test_chinese_is_not_left_out_for_being_short() -> None:
    """38 letters for 8 characters are a ratio of 4.75, and a good translation."""
    assert _reasons("I would like you to read this book now", "我要你现在读此书") == []
    assert _reasons("我要你现在读此书", "I would like you to read this book now") == []


@pytest.mark.parametrize("target", ["书", "ほ", "Ja."])
def test_a_translation_that_is_cut_off_is_left_out(target: str) -> None:
    assert _reasons("I would like you to read this book now", target) == ["length ratio"]


@pytest.mark.parametrize("text", ["这一行从来没有被翻译成英文", "この行は翻訳されていませんでした", "ประโยคนี้ยังไม่ได้แปล"])
def test_a_line_without_spaces_that_was_not_translated_is_left_out(text: str) -> None:
    assert _reasons(text, text) == ["identical sides"]


@pytest.mark.parametrize("name", ["東京大学", "北京", "New York City", "กรุงเทพ"])
def test_names_may_be_the_same_on_both_sides(name: str) -> None:
    assert _reasons(name, name) == []
