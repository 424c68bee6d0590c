"""Where sentences end, in several scripts, and in a time that grows with the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat_runtime.text.sentences import BREAK, cut_at_sentences, split_sentences


@pytest.mark.parametrize(
    ("sentences", "language"),
    [
        (["The small cat is sleeping.", "Where are my keys?", "The boy studied last week."], "en"),
        (["Mr. Smith paid 3.50 for J. R. R. Tolkien's book, e.g. this one.", "He (the U.S. man) left!", "Why?"], ""),
        (["See www.example.org. or v1.2.3 now.", "Yahoo! is a name.", "Wait... what?", "No..."], "en"),
        (['He said "Go!" and went.', '"Why?"', "She asked.", "(It was late.)", "5 men came."], "en"),
        (["Atatürk 10. yıl nutkunu okudu.", "3. Selim geldi.", "Prof. Dr. Ali Bey 1938 yılında gitti."], "tr"),
        (["Er kam am 3. Oktober.", "Es war z.B. kalt.", "Das war 1999.", "Dann ging er."], "de_DE"),
        (["1. Select the file.", "2. Press OK.", "He ate 3.", "Then he left."], "en"),
        (["i am here .", "you are there !", "where ?"], "en"),
        (["¿Qué haces?", "¡Hola!", "«Bien», dijo."], "es"),
        (["आप कैसे हैं?", "मैं ठीक हूँ।", "धन्यवाद।"], "hi"),
        (["كيف حالك؟", "أنا بخير."], "ar"),
    ],
)
def test_sentences_come_apart_where_they_end(sentences: list[str], language: str) -> None:
    assert split_sentences(" ".join(sentences), language) == sentences
    assert split_sentences("  \t".join(["", *sentences, ""]), language) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["今日は天気がいい。", "公園に行こう！？", "はい。"],
        ["他说：“你好。”然后走了。", "我也走了！"],
        ["「行こう！」と彼は言った。", "（終わり。）"],
    ],
)
def test_chinese_and_japanese_have_no_spaces_between_sentences(sentences: list[str]) -> None:
    assert split_sentences("".join(sentences)) == sentences


@pytest.mark.parametrize("mark", ["\r", "\r\r", "\u2028", "\x0c", "\x85"])
def test_the_end_of_another_kind_of_line_ends_a_sentence(mark: str) -> None:
    assert split_sentences(f"The cat{mark}sleeps. Yes{mark}") == ["The cat", "sleeps.", "Yes"]
    assert BREAK.search(f"a{mark}b")
    assert not BREAK.search("a\tb\u00a0c")


@pytest.mark.parametrize("text", ["", " ", "\r", "\r \r"])
def test_no_text_has_no_sentence(text: str) -> None:
    assert split_sentences(text) == []


@pytest.mark.parametrize("unit", [".", ". ", '.")', "a. ", "3. ", "。", "!? ", "\r", "a", " ", "Mr. "])
def test_a_long_text_of_one_kind_keeps_every_sign(unit: str) -> None:
    """A rule whose time is quadratic in the text would not come back for hours."""
    text = unit * (100_000 // len(unit))
    sentences = split_sentences(text, "en")
    assert "".join(sentences).replace(" ", "") == text.replace(" ", "").replace("\r", "")


@given(st.text('Ab3.!?。 \t"”', max_size=40), st.sampled_from(["", "en", "tr"]))
def test_a_line_cut_at_its_sentences_is_whole_and_cut_where_they_end(line: str, language: str) -> None:
    pieces = cut_at_sentences(line, language)
    assert "".join(pieces) == line
    # white space around the line is no part of it where sentences are looked for
    trimmed = cut_at_sentences(line.strip(), language)
    assert [piece.strip() for piece in trimmed if piece.strip()] == split_sentences(line, language)
