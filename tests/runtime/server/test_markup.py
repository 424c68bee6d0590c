"""Texts and markup taken apart and put together again: nothing but the words may change."""

from __future__ import annotations

import time

import pytest

from dikkat_runtime.server.glossaries import Terms
from dikkat_runtime.server.markup import split_markup
from dikkat_runtime.server.segments import Fixed, Part, split_text


def segments(parts: list[Part]) -> list[str]:
    return [part.text for part in parts if not isinstance(part, Fixed)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith met Dr. Who.", ["Mr. Smith met Dr. Who."]),
        ("J. R. Tolkien wrote it. Yes.", ["J. R. Tolkien wrote it.", "Yes."]),
        ("It costs 3.50 euros. and more", ["It costs 3.50 euros. and more"]),
        ("“Stop.” He went.", ["“Stop.”", "He went."]),
        ("これは本です。はい。", ["これは本です。", "はい。"]),
        ("a\nb\r\n\r\nc", ["a", "b", "c"]),
        ("--- 12:30 ---", []),
    ],
)
def test_a_text_is_cut_at_its_sentences_and_lines(text: str, expected: list[str]) -> None:
    parts = split_text(text)
    assert segments(parts) == expected
    assert "".join(part.text for part in parts) == text


def test_ordinals_of_a_language_end_no_sentence() -> None:
    assert segments(split_text("Bu 3. Madde ile ilgili. Evet.", "tr")) == ["Bu 3. Madde ile ilgili.", "Evet."]
    assert segments(split_text("I have 3. You have 4.", "en")) == ["I have 3.", "You have 4."]


def test_a_long_sentence_is_cut_so_that_memory_stays_bounded() -> None:
    for text in ("word " * 1000, "x" * 5000):
        parts = split_text(text)
        assert max(map(len, segments(parts))) <= 400
        assert "".join(part.text for part in parts) == text


def test_lines_and_sentences_stay_whole_where_they_shall() -> None:
    assert segments(split_text("One. Two.\nThree.", sentences=False)) == ["One. Two.", "Three."]
    assert segments(split_text("One\ntwo.", lines=False)) == ["One\ntwo."]


def test_terms_have_their_translation_whatever_their_case_but_only_as_whole_words() -> None:
    terms = Terms({"key": "clef", "key ring": "porte-clefs", "C++": "C++", "ΟΔΟΣ": "rue"})
    parts = split_text("My KEY ring, a key, monkeys, C++!", terms=terms)
    assert "".join(part.text for part in parts) == "My porte-clefs, a clef, monkeys, C++!"
    assert segments(parts) == ["My", ", a", ", monkeys,"]


def test_markup_is_put_together_byte_for_byte() -> None:
    text = '<!DOCTYPE html><p title="a > b">A &amp; b</p><br/><![CDATA[x < y]]><?php a ?> 1 < 2 <3'
    parts = split_markup(text, ())
    assert segments(parts) == ["A & b"]
    assert "".join(part.text if isinstance(part, Fixed) else "A &amp; b" for part in parts) == text.replace(
        "1 < 2 <3", "1 &lt; 2 &lt;3"
    )


def test_what_is_ignored_ends_with_its_own_tag() -> None:
    assert segments(split_markup("<x>a<x>b</x>c</x>d<x/>e", {"x"})) == ["d", "e"]
    assert segments(split_markup('<span translate="no">a</span>b<i class="n notranslate">c</i>', ())) == ["b"]
    assert segments(split_markup("<x>never closed", {"x"})) == []


@pytest.mark.parametrize("text", ["<" * 50_000, "<a '" * 12_500, '<a "' * 12_500, "<!--" * 12_500, "<a " * 16_000])
def test_hostile_markup_takes_no_longer_than_other_text(text: str) -> None:
    start = time.process_time()
    split_markup(text, {"x"})
    assert time.process_time() - start < 5
