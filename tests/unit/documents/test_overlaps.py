"""Units and segments that stand inside others: the outer one is translated, and what is inside stays as it is."""

from __future__ import annotations

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, same, shouting

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Edit, Segment
from dikkat_runtime.errors import DataError

UNIT = '<trans-unit id="2"><source>a cat</source></trans-unit>'
UNIT_2 = '<unit id="2"><segment><source>a cat</source></segment></unit>'
MEMORY_UNIT = '<tu><tuv xml:lang="en"><seg>a cat</seg></tuv></tu>'
OLD = '<xliff version="1.2"><file><trans-unit id="1">{}</trans-unit></file></xliff>'
NEW = '<xliff version="2.0"><file><unit id="1"><segment>{}</segment></unit></file></xliff>'
MEMORY = "<tmx><body><tu>{}</tu></body></tmx>"
CUT = (
    '<seg-source><mrk mtype="seg" mid="1">a dog{}</mrk></seg-source><target><mrk mtype="seg" mid="1">{}</mrk></target>'
)
IN_CUT = '<mrk mtype="seg" mid="2">{}</mrk>'


@pytest.mark.parametrize(
    ("name", "text", "inside", "is_translated"),
    [
        ("a.xlf", OLD.format(f'<source>A dog <ph id="1">{UNIT}</ph> sleeps.</source>'), UNIT, True),
        ("a.xlf", OLD.format(f'<source>A dog <ph id="1">{UNIT}</ph> sleeps.</source><target/>'), UNIT, True),
        ("a.xlf", OLD.format(f"<source>A dog</source><note>{UNIT}</note>"), UNIT, True),
        ("a.xlf", OLD.format(f"{UNIT}<source>A dog</source>"), UNIT, True),
        ("a.xlf", OLD.format(f"<source>A dog</source><target>{UNIT}</target>"), UNIT, False),
        ("a.xlf", OLD.format("<source>x</source>" + CUT.format("", IN_CUT.format(""))), IN_CUT.format(""), False),
        ("a.xlf", NEW.format(f'<source>A dog <ph id="1">{UNIT_2}</ph></source>'), UNIT_2, True),
        ("a.xlf", NEW.format(f"<source>A dog</source>{UNIT_2}"), UNIT_2, True),
        (
            "a.tmx",
            MEMORY.format(f'<tuv xml:lang="en"><seg>A dog <ph>{MEMORY_UNIT}</ph></seg></tuv>'),
            MEMORY_UNIT,
            False,
        ),
        ("a.tmx", MEMORY.format(f'<tuv xml:lang="en"><seg>A dog</seg></tuv>{MEMORY_UNIT}'), MEMORY_UNIT, True),
        (
            "a.tmx",
            MEMORY.format(
                f'<tuv xml:lang="en"><seg>A dog</seg></tuv><tuv xml:lang="fr"><seg>{MEMORY_UNIT}</seg></tuv>'
            ),
            MEMORY_UNIT,
            False,
        ),
    ],
)
def test_the_outer_text_is_translated_and_the_inner_one_stays(
    name: str, text: str, inside: str, is_translated: bool
) -> None:
    written = translate_document(text.encode(), name, shouting, align=in_order, options=ENGLISH_FRENCH).data.decode()
    assert inside in written
    assert ("A DOG" in written) == is_translated
    assert "A CAT" not in written


def test_texts_that_overlap_are_refused_with_their_line() -> None:
    segments = [Segment(("a",), lambda content: [Edit(0, 5, "x")], 1)]
    segments.append(Segment(("b",), lambda content: [Edit(4, 6, "x")], 1))
    with pytest.raises(DataError, match=r"a\.xlf:2: a text is nested in another text"):
        TextDocument(DecodedFile("a.xlf", "abc\ndef"), segments).write([("x",), ("y",)])


def test_the_pages_own_example_is_whole() -> None:
    text = OLD.format(f'<source>A dog <ph id="1">{UNIT}</ph> sleeps.</source>')
    document = translate_document(text.encode(), "a.xlf", same, align=in_order, options=ENGLISH_FRENCH)
    assert document.remarks["units inside another unit, not translated"] == 1
