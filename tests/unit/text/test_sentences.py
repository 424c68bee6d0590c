"""Where sentences end, in several scripts, and in a time that grows with the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.browser_engine import in_node

from dikkat.web.reading_table import reading_table
from dikkat_runtime.text.segmentation import ReadingLimits
from dikkat_runtime.text.sentences import BREAK, cut_at_sentences, split_sentences

SPACED = [
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
]


@pytest.mark.parametrize(("sentences", "language"), SPACED)
def test_sentences_come_apart_where_they_end(sentences: list[str], language: str) -> None:
    assert split_sentences(" ".join(sentences), language) == sentences
    assert split_sentences("  \t".join(["", *sentences, ""]), language) == sentences


JOINED = [
    ["The cat sleeps.", "The dog eats.", "the bird sings!", "No, it\u00a0eats."],
    ["kedi uyuyor.", "Köpek yiyor.", "kuş uçuyor?!", "İyi ki geldin."],
    ["they wait...", "The dog eats (well…", "Élise sings)."],
]


@pytest.mark.parametrize("sentences", JOINED)
def test_a_mark_without_a_space_ends_a_sentence_between_two_words(sentences: list[str]) -> None:
    """Only before a capital: what follows in small letters is joined to what is before it."""
    text = "".join(sentences)
    joined = re.split(r"(?<=[.!?…])(?=[A-ZÉİ])", text)
    assert split_sentences(text) == cut_at_sentences(text) == joined
    assert len(joined) > 2


WHOLE = [
    "See example.Com for more.", "e.g.The cat", "the approx.The value", "Use Node.JS or vue.Js now", "a/b.The end",
    "now v1.Beta is out", "call foo.Bar() or os.Path", "write to ann@firma.De for more", "the U.S.A is big",
    "at http://a.b/foo.Bar too", "1.The cat", "Mr.Smith came", "mr.Smith came", "the System.Out stream",
    "the file read_me.The end", "3.5.The end", "the word.Word", "no.No way", "cat.A dog", "sleeps.THE DOG EATS",
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
def test_names_addresses_and_abbreviations_are_whole_without_a_space(text: str) -> None:
    assert split_sentences(text) == [text]


UNSPACED = [
    ["今日は天気がいい。", "公園に行こう！？", "はい。"],
    ["他说：“你好。”然后走了。", "我也走了！"],
    ["「行こう！」と彼は言った。", "（終わり。）"],
]


@pytest.mark.parametrize("sentences", UNSPACED)
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


BY_PAGE = """
const languages = Object.fromEntries(input.tables.map(([language, table]) =>
  [language, new engine.Reading(table)]));
return input.texts.map(([language, text]) => engine.splitSentences(text, languages[language].table));
"""


def test_the_page_cuts_where_the_runtime_does(tmp_path: Path) -> None:
    texts = [(language, " ".join(sentences)) for sentences, language in SPACED]
    texts += [("", "".join(sentences)) for sentences in (*JOINED, *UNSPACED)] + [("", text) for text in WHOLE]
    limits = ReadingLimits(100, 100, several_sentences=False)
    tables = [
        (language, reading_table((language, ""), limits, {}, ())) for language in {language for language, _ in texts}
    ]
    cut = in_node(tmp_path, BY_PAGE, {"tables": tables, "texts": texts})
    for (language, text), sentences in zip(texts, cut, strict=True):
        assert sentences == split_sentences(text, language)
