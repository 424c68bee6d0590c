"""Languages of XLIFF files and of the texts of memories, and annotations that protect a text."""

from __future__ import annotations

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting

from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.segments import Options

FILE = '<file source-language="{}"><body><trans-unit id="1"><source>{}</source></trans-unit></body></file>'
SECOND = (
    '<xliff version="2.0" srcLang="{}"><file id="f"><unit id="u"><segment><source>{}</source></segment></unit></file>'
    "</xliff>"
)


def translated(text: str, name: str, options: Options = ENGLISH_FRENCH) -> TranslatedDocument:
    return translate_document(text.encode(), name, shouting, align=in_order, options=options)


def test_a_file_in_another_language_stays_and_is_counted() -> None:
    text = f'<xliff version="1.2">{FILE.format("de-DE", "Hund")}{FILE.format("en-GB", "dog")}</xliff>'
    document = translated(text, "a.xlf")
    assert document.data.decode().count("<target") == 1
    assert ">DOG</target>" in document.data.decode()
    assert document.remarks["files in de-DE, while the model reads en; left as they are"] == 1
    assert translated(SECOND.format("de", "Hund"), "a.xlf").data.decode() == SECOND.format("de", "Hund")
    assert "<target>DOG</target>" in translated(SECOND.format("en-US", "dog"), "a.xlf").data.decode()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('a <mrk mtype="protected">dog</mrk> cat', 'A <mrk mtype="protected">dog</mrk> CAT'),
        ('a <mrk id="1" translate="no">dog</mrk> cat', 'A <mrk id="1" translate="no">dog</mrk> CAT'),
        ('a <mrk mtype="term">dog</mrk> cat', 'A <mrk mtype="term">DOG</mrk> CAT'),
        (
            'a <sm id="1" translate="no"/>dog<em startRef="1"/> cat',
            'A <sm id="1" translate="no"/>dog<em startRef="1"/> CAT',
        ),
    ],
)
def test_an_annotation_protects_its_text(source: str, expected: str) -> None:
    assert f"<target>{expected}</target>" in translated(SECOND.format("en", source), "a.xlf").data.decode()


def memory(*units: str) -> str:
    return f'<tmx version="1.4"><header srclang="*all*"/><body>{"".join(units)}</body></tmx>'


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu>{''.join(variants)}</tu>"


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [("en", "fr", "fr"), ("en-GB", "fr", "fr"), ("en_US", "fr-CA", "fr-CA")],
)
def test_any_text_of_a_memory_may_be_the_source(source: str, target: str, code: str) -> None:
    text = memory(unit(de="Hund", en="dog"))
    written = translated(text, "a.tmx", Options(source, target)).data.decode()
    assert f'<tuv xml:lang="{code}" creationid="dikkat"><seg>DOG</seg></tuv></tu>' in written


def test_a_new_text_is_named_as_the_memory_names_its_language() -> None:
    text = memory(unit(en_US="cat", fr_FR="chat"), unit(en_US="dog"))
    assert '<tuv xml:lang="fr-FR" creationid="dikkat"><seg>DOG</seg>' in translated(text, "a.tmx").data.decode()


def test_another_variant_is_another_text() -> None:
    text = memory(unit(en_US="dog"))
    assert translated(text, "a.tmx", Options("en-GB", "fr")).data.decode() == text
