"""Plurals and choices of ICU messages: every branch is a text of its own, and no sign of the syntax changes."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from tests.unit.documents.stand_ins import in_order, shouting

from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.messages import BROKEN
from dikkat_runtime.documents.segments import Options


def document(message: str, target: str = "de") -> TranslatedDocument:
    unit = f'<trans-unit id="1"><source>{message}</source></trans-unit>'
    text = f'<xliff version="1.2"><file source-language="en"><body>{unit}</body></file></xliff>'
    return translate_document(text.encode(), "a.xlf", shouting, align=in_order, options=Options("en", target))


def target(message: str, language: str = "de") -> str:
    written = ElementTree.fromstring(document(message, language).data).find(".//target")
    return "" if written is None else "".join(ElementTree.tostring(written, encoding="unicode")).partition(">")[2][:-9]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("{VAR_PLURAL, plural, =1 {The cat.} one {A dog.} other {The cats.}}",
         "{VAR_PLURAL, plural, =1 {THE CAT.} one {A DOG.} other {THE CATS.}}"),
        ("{n,plural,offset:1 one{# dog}other{# dogs of {name}}}",
         "{n,plural,offset:1 one{# DOG}other{# DOGS OF {name}}}"),
        ("{g, select, male {his {n, plural, one {cat} other {cats}}} other {their cats}}",
         "{g, select, male {HIS {n, plural, one {CAT} other {CATS}}} other {THEIR CATS}}"),
        ("{n, selectordinal, one {#st day} other {#th day}}", "{n, selectordinal, one {#ST DAY} other {#TH DAY}}"),
        ("{n, plural, one {a '{dog}'} other {it''s {d, date, short}}}",
         "{n, plural, one {A '{dog}'} other {IT'S {d, date, short}}}"),
        ("{n, plural, one {<x id=\"1\" />dog} other {<x id=\"2\" /> dogs}}",
         "{n, plural, one {<x id=\"1\" />DOG} other {<x id=\"2\" /> DOGS}}"),
        ("You see {n, plural, one {# dog} other {# dogs}} here.",
         "{n, plural, one {YOU SEE # DOG HERE.} other {YOU SEE # DOGS HERE.}}"),
        ("Hello {name}, a dog", "HELLO {name}, A DOG"),
    ],
)  # fmt: skip
def test_branches_are_translated_and_the_syntax_stays(message: str, expected: str) -> None:
    assert target(message) == expected


@pytest.mark.parametrize(
    ("language", "added"),
    [
        ("pl", ["few", "many"]),
        ("ar", ["zero", "two", "few", "many"]),
        ("fr", []),
        ("tr", []),
        ("ja", []),
        ("lv", ["zero"]),
    ],
)
def test_a_plural_gets_the_categories_of_the_target_language(language: str, added: list[str]) -> None:
    source = "{n, plural, one {# dog} other {# dogs}}"
    more = "".join(f" {category} {{# DOGS}}" for category in added)
    assert target(source, language) == f"{{n, plural, one {{# DOG}} other {{# DOGS}}{more}}}"


@pytest.mark.parametrize(
    "message", ["{n, plural, one {a dog}}", "{n, plural, one {a dog other {dogs}}", "{n, plural, other"]
)
def test_a_message_of_broken_syntax_gets_no_target_and_is_counted(message: str) -> None:
    assert "<target" not in document(message).data.decode()
    assert document(message).remarks[BROKEN] == 1


def test_an_apostrophe_of_a_translation_quotes_no_argument() -> None:
    def french(texts: Sequence[str]) -> list[str]:
        return [text.replace("of ", "d'") for text in texts]

    text = 'msgid ""\nmsgstr ""\n"Language: ja\\n"\n\nmsgid "{n, plural, other {of {name}}}"\nmsgstr ""\n'
    written = translate_document(text.encode(), "a.po", french, align=in_order, options=Options("en", "ja")).data
    assert b"\"{n, plural, other {d''{name}}}\"" in written
