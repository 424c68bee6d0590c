"""Texts and markup taken apart and put together again: nothing but the words may change."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from dikkat_runtime.documents.fragments import Structure, html_fragment, xml_fragment
from dikkat_runtime.documents.segments import Content, Tag
from dikkat_runtime.server.fields import TextOptions
from dikkat_runtime.server.marked_up import translate_marked_up
from dikkat_runtime.server.segments import Part, split_text
from dikkat_runtime.server.translation import is_plain


def segments(parts: list[Part]) -> list[str]:
    return [part.text for part in parts if not part.is_fixed]


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
    joined = split_text("The cat sleeps.The dog eats. Why? これは犬です。猫です。", "en")
    assert "".join(part.text for part in joined) == "The cat sleeps. The dog eats. Why? これは犬です。猫です。"


def test_a_long_sentence_is_cut_so_that_memory_stays_bounded() -> None:
    for text in ("word " * 1000, "x" * 5000):
        parts = split_text(text)
        assert max(map(len, segments(parts))) <= 400
        assert "".join(part.text for part in parts) == text


def test_lines_and_sentences_stay_whole_where_they_shall() -> None:
    assert segments(split_text("One. Two.\nThree.", sentences=False)) == ["One. Two.", "Three."]
    assert segments(split_text("One\ntwo.", lines=False)) == ["One\ntwo."]


# fragments with tags


class Capitals:
    """Translates by writing in capitals, names excepted, and aligns each word with that of its number."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def translate(self, texts: Any) -> list[list[str]]:
        self.asked += texts
        return [[self.written(text), f"2 {text}"] for text in texts]

    @staticmethod
    def written(text: str) -> str:
        names = r"Tom|Mary|Martin|Paul|Anna|Paris|Berlin"
        return re.sub(r"\w+", lambda word: word[0] if re.fullmatch(names, word[0]) else word[0].upper(), text)


def translated(text: str, **options: Any) -> str:
    ((best, *_),) = translate_marked_up(Capitals().translate, None, [text], "en", TextOptions(**options))
    return best


def contents(document: Any) -> list[Content]:
    return [segment.content for segment in document.segments]


XML = {
    "See <b>this</b> now": "SEE <b>THIS</b> NOW",
    "<p>one two</p><p>three <i>four</i></p>": "<p>ONE TWO</p><p>THREE <i>FOUR</i></p>",
    'Open <x id="7"></x> and <x id="8">{raw} &amp;</x>.': 'OPEN <x id="7"></x> AND <x id="8">{raw} &amp;</x>.',
    "<a>1 &lt; 2 <b>never closed": "<a>1 &lt; 2 <b>NEVER CLOSED",
    "<!-- no --><![CDATA[x < y]]>yes<?php a ?>": "<!-- no --><![CDATA[x < y]]>YES<?php a ?>",
    '<k q="a > b">go</k><e/>': '<k q="a > b">GO</k><e/>',
    '<span translate="no">stay</span> go': '<span translate="no">stay</span> GO',
    "one\ntwo": "ONE\nTWO",
    "</b>lost<": "</b>LOST&lt;",
}


@pytest.mark.parametrize(("text", "expected"), XML.items(), ids=range(len(XML)))
def test_xml_is_put_together_byte_for_byte(text: str, expected: str) -> None:
    assert translated(text, markup="xml", structure=Structure(ignored=("x",))) == expected


def test_the_structure_of_xml_decides_what_is_one_sentence() -> None:
    text = "<d>a <i>b</i> c<br/>d</d>"

    def sentences(**structure: Any) -> list[str]:
        result = contents(xml_fragment(text, Structure(**structure)))
        return ["".join("|" if isinstance(item, Tag) else item for item in content) for content in result]

    assert sentences() == ["a |b| c|d"]
    assert sentences(splitting=("br",)) == ["a |b| c", "d"]
    assert sentences(splitting=("i",)) == ["a ", "b", " c|d"]
    assert sentences(detects=False) == ["|a |b| c|d|"]
    assert sentences(inside=("d",)) == ["|a |b| c|d|"]


def test_what_is_ignored_ends_with_its_own_tag() -> None:
    def words(text: str) -> list[str]:
        result = contents(xml_fragment(text, Structure(ignored=("x",))))
        return ["".join(item for item in content if isinstance(item, str)) for content in result]

    assert words("<x>a<x>b</x>c</x>d<x/>e") == ["de"]
    assert words("<x>never closed") == ["never closed"]


def test_html_keeps_what_no_page_wants_translated_and_the_names_that_are_ignored() -> None:
    text = '<p class="a>b">one</p><script>if (a < b) x()</script><code>two</code><x-y>three</x-y> four &eacute;'
    written = translated(text, markup="html", structure=Structure(ignored=("X-Y",)))
    assert written.startswith('<p class="a>b">ONE</p><script>if (a < b) x()</script><code>two</code><x-y>three</x-y>')
    assert "FOUR" in written


def test_alternatives_have_the_tags_too() -> None:
    engine = Capitals()
    options = TextOptions(markup="xml", alternatives=1)
    (ranks,) = translate_marked_up(engine.translate, None, ["<p>one <b/>two</p>"], "en", options)
    assert ranks == ["<p>ONE <b/>TWO</p>", "<p>2 one <b/>two</p>"]
    assert engine.asked == ["one two"]


def test_only_texts_with_tags_references_are_read_for_them() -> None:
    assert is_plain("1 > 2", TextOptions(markup="xml"))
    assert is_plain("<b> & co", TextOptions())
    assert not is_plain("a &amp; b", TextOptions(markup="html"))


HOSTILE = ["<" * 20_000, "<a '" * 5_000, '<a "' * 5_000, "<!--" * 5_000, "<a " * 6_000, "<a>" * 6_000, "</a" * 6_000,
           "<a></b>" * 3_000, "<a" * 10_000 + ">", "<?" * 10_000, "<![CDATA[" * 2_000, "<code>" * 3_000,
           "<a>" * 3_000 + "</b>" * 3_000]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", ["xml", "html"])
def test_hostile_markup_takes_no_longer_than_other_text(text: str, kind: str) -> None:
    start = time.process_time()
    document = xml_fragment(text, Structure(ignored=("x",))) if kind == "xml" else html_fragment(text)
    assert document.write([segment.content for segment in document.segments]).decode().count("<") <= text.count("<")
    assert time.process_time() - start < 2
