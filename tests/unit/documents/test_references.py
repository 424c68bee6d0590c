"""Document types and references of XML: outside of the texts every byte stays, and an entity in a text is one after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing, same, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.fragments import Structure, xml_fragment
from dikkat_runtime.documents.translation import ContentTranslator
from dikkat_runtime.errors import DataError

STAYING = (
    '<!DOCTYPE a SYSTEM "a.dtd"><a>{}</a>',
    '<!DOCTYPE a [<!ENTITY x "the cat"><!ELEMENT a (#PCDATA)>]>\n<a>{}</a>',
    '<?xml version="1.0"?>\n<!DOCTYPE a [\n<!-- the ]> dog --><!ENTITY x "the > dog ]>">\n]>\n<a>{}</a>',
    '<!DOCTYPE a PUBLIC "-//the [dog]//EN" "http://x" [ %p; <?the dog ]> ?> ]><a>{}</a>',
    "<!DOCTYPE a [" + '<!ENTITY x "the dog">' * 1_000 + "]><a>{}</a>",
    '<a title="&x; dog">{}</a>',
)
TEXTS = (
    "The dog", "The &x; dog", "&x;", "&x;&y; sleeps", "The dog &amp; the cat", "&apos;&#232;&apos; caf&eacute;",
    "&product.name; &x-y; sleeps, (&z;)", "The&nbsp;dog &mdash; sleeps&hellip;", "The <![CDATA[<b>x & y]]> dog",
    "x&#0;&#xD800;&#99999999999999999999999; dog", "The &quot;dog&quot; &lt;b&gt; &amp;x; sleeps",
    "A &#10; dog&#160;sleeps",
)  # fmt: skip


def translated(text: str, translate: Callable[[Sequence[str]], list[str]] = same) -> str:
    document = xml_fragment(text, Structure())
    align = in_reverse if translate is reversing else in_order
    translator = ContentTranslator(translate, align, lambda sentence: [sentence])
    return document.write(translator([segment.content for segment in document.segments])).decode()


@pytest.mark.parametrize("frame", STAYING)
def test_a_translation_of_each_text_by_itself_changes_no_byte(frame: str) -> None:
    for text in TEXTS:
        assert translated(frame.format(text)) == frame.format(text)


@pytest.mark.parametrize("frame", STAYING)
def test_declarations_stay_and_entities_too_whatever_the_translation_is(frame: str) -> None:
    head, tail = frame.split("{}")
    assert translated(frame.format("The &x; dog sleeps"), shouting) == f"{head}THE &x; DOG SLEEPS{tail}"
    assert translated(frame.format("The &x; dog"), reversing) == f"{head}dog &x; The{tail}"


@given(
    st.lists(st.sampled_from(("the ", "dog ", "&x;", "&y;", " ", "&amp;", "&#8217;", "<b>", "</b>", "&#xD800;", "<!D")))
)
def test_every_entity_of_any_text_comes_back(pieces: list[str]) -> None:
    text = "".join(pieces)
    for translate in (same, shouting, reversing):
        written = translated(text, translate)
        for entity in ("&x;", "&y;", "&#xD800;"):
            assert written.count(entity) == text.count(entity)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("a.xlf", '<xliff><file><trans-unit id="1"><source>{}</source></trans-unit></file></xliff>', ">{}</target>"),
        (
            "a.tmx",
            '<tmx><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>',
            "<seg>{}</seg></tuv></tu>",
        ),
    ],
)
def test_an_entity_of_a_bilingual_file_stands_in_its_target(name: str, text: str, written: str) -> None:
    # an entity that only a file outside declares is not looked up, and no error
    data = f'<!DOCTYPE x SYSTEM "x.dtd">{text}'.format("The &x; dog").encode()
    document = translate_document(data, name, shouting, align=in_order, options=ENGLISH_FRENCH)
    assert written.format("THE &x; DOG") in document.data.decode()


def test_a_word_document_with_a_document_type_is_refused() -> None:
    from tests.unit.documents import samples

    body = '<!DOCTYPE x SYSTEM "x.dtd">' + samples.WORD_BODY.partition("?>")[2]
    with pytest.raises(DataError, match="declares a document type"):
        translate_document(samples.word_document(body), "a.docx", same, align=in_order, options=ENGLISH_FRENCH)
