"""What a page says of its languages, what is chosen in it and drawn in it, and sentences that a break parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, reversing, shouting, unchanged

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.html import CODE, FOREIGN, MARKED
from dikkat_runtime.documents.segments import Options


def shouted(text: str, options: Options = ENGLISH_FRENCH) -> str:
    return translate_document(text.encode(), "a.html", shouting, align=in_order, options=options).data.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<p>the <i lang="la">et al</i> dog', '<p>THE <i lang="la">et al</i> DOG'),
        ('<div lang=de>Hund <p lang="en-GB">dog</p> Katze</div>dog',
         '<div lang=de>Hund <p lang="en-GB">DOG</p> Katze</div>DOG'),
        ('<p lang="fr" title="chat">chat</p><p>dog', '<p lang="fr" title="chat">chat</p><p>DOG'),
        ("<p xml:lang='de'>Hund</p><p lang=''>dog", "<p xml:lang='de'>Hund</p><p lang=''>DOG"),
        ('<img lang="de" src=x><p>dog', '<img lang="de" src=x><p>DOG'),
        ("<select><option>a dog<option>a <b>cat</b></select>", "<select><option>A DOG<option>A <b>CAT</b></select>"),
        ("<p>see <select><option>dog</option></select> now", "<p>SEE <select><option>DOG</option></select> NOW"),
        ("<p>see <svg><title>dog</title><text>a <tspan>cat</tspan></text><style>a{}</style></svg> now",
         "<p>SEE <svg><title>DOG</title><text>A <tspan>CAT</tspan></text><style>a{}</style></svg> NOW"),
        ("<img alt=dog>", '<img alt="DOG">'),
        ('<optgroup label="dog"><track label="cat">', '<optgroup label="DOG"><track label="CAT">'),
        ('<meta property="og:title" content="dog">', '<meta property="og:title" content="DOG">'),
        ("<a>dog</a> | <a>cat</a><p>|</p><b>.</b>", "<a>DOG</a> | <a>CAT</a><p>|</p><b>.</b>"),
        ('<select translate="no"><option>dog</select>', '<select translate="no"><option>dog</select>'),
        ('<p translate="no">a <b>dog</b><p>cat', '<p translate="no">a <b>dog</b><p>CAT'),
        ("<ul><li class=notranslate>dog<li>cat</ul>", "<ul><li class=notranslate>dog<li>CAT</ul>"),
        ('<p translate="no">dog', '<p translate="no">dog'),
        ('<b translate="no" title="dog">dog</b> <img translate="no" alt="dog"> cat',
         '<b translate="no" title="dog">dog</b> <img translate="no" alt="dog"> CAT'),
    ],
)  # fmt: skip
def test_only_what_people_read_in_the_source_language_is_translated(text: str, expected: str) -> None:
    assert shouted(text) == expected
    assert unchanged(text.encode(), "a.html").data.decode() == text


def test_what_stays_is_counted_by_its_reason() -> None:
    text = '<p lang="de">Hund</p><code>x</code><p translate="no">dog</p><p class="notranslate">cat</p>'
    remarks = unchanged(text.encode(), "a.html").remarks
    assert (remarks[FOREIGN], remarks[CODE], remarks[MARKED]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("head", "source", "target", "expected"),
    [
        ('<html lang="en">', "en", "ar", '<html dir="rtl" lang="ar">'),
        ('<html lang="en" dir="ltr">', "en", "he", '<html lang="he" dir="rtl">'),
        ('<html dir="rtl" lang="fa">', "fa", "en", '<html dir="ltr" lang="en">'),
        ('<html lang="en">', "en", "fr", '<html lang="fr">'),
        ('<html lang="de">', "en", "ar", '<html lang="de">'),
    ],
)
def test_a_page_is_written_in_the_direction_of_its_language(head: str, source: str, target: str, expected: str) -> None:
    assert shouted(f"{head}<p>dog", Options(source, target)).startswith(expected)


@pytest.mark.parametrize(
    ("text", "num_sentences"),
    [("The dog<br>sleeps.", 1), ("The dog.<br>sleeps", 2), ("The dog<br>Sleeps", 2), ("The dog <br/> sleeps", 1)],
)
def test_a_sentence_goes_on_behind_a_break_in_it(text: str, num_sentences: int) -> None:
    sentences: list[str] = []

    def record(texts: list[str]) -> list[str]:
        sentences.extend(texts)
        return reversing(texts)

    translate_document(f"<p>{text}".encode(), "a.html", record, align=in_order, options=ENGLISH_FRENCH)  # type: ignore[arg-type]
    assert len(sentences) == num_sentences


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<h2><a href=x>Crate core</a><span class=v>one</span></h2>", ["Crate core", "one"]),
        ("<nav><a>One dog</a><a>Two <b>cats</b></a></nav>", ["One dog", "Two cats"]),
        ("<p><b>One</b> <i>dog</i></p>", ["One dog"]),
        ("<p><b>One</b><i> dog</i></p>", ["One dog"]),
        ("<p><u><b>One</b><i>dog</i></u></p>", ["Onedog"]),
        ("<p>x<sup>two</sup><sub>i</sub> is</p>", ["xtwoi is"]),
    ],
)
def test_an_element_that_begins_where_another_ends_is_a_text_of_its_own(page: str, texts: list[str]) -> None:
    read: list[str] = []

    def keep(lines: Sequence[str]) -> Sequence[str]:
        read.extend(lines)
        return shouting(lines)

    translate_document(page.encode(), "a.html", keep, align=in_order, options=ENGLISH_FRENCH)
    assert read == texts
