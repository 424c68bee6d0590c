"""Files from a stranger: each is refused in one line that says where, and nothing outside of it is read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from tests.unit.documents import samples
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, same, unchanged

from dikkat_runtime.documents import archives
from dikkat_runtime.documents.document_files import translate_file
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError, DikkatError, MissingInputError, UsageError

BOMB = (
    '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<tmx version='1.4'><body><tu><tuv xml:lang='en'><seg>&b;</seg></tuv></tu></body></tmx>"
)
OUTSIDE = BOMB.replace('<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">', '<!ENTITY b SYSTEM "file:///etc/passwd">')


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.tmx", BOMB, 'a.tmx: declares the entity "a"'),
        ("a.tmx", OUTSIDE.replace('<!ENTITY a "aaaaaaaaaa">', ""), 'a.tmx: declares the entity "b"'),
        ("a.xlf", BOMB, 'a.xlf: declares the entity "a"'),
        ("a.xlf", '<xliff version="1.2">\n<file><body></xliff>', "a.xlf:2: byte 36: not valid XML (mismatched tag)"),
        ("a.xlf", "<html/>", "a.xlf: its root is <html>, not <xliff>"),
        ("a.tmx", "", "a.tmx:1: byte 0: not valid XML (no element found)"),
        ("a.po", 'msgid "x"\nnonsense\n', "a.po:2: not a line of a gettext catalog (.po)"),
        ("a.po", 'msgid "x"\n', "a.po:1: the message has no msgstr"),
        ("a.po", 'msgstr "x"\nmsgstr "y"\n', "a.po:2: a second msgstr of one message"),
        ("a.mo", "text", "a.mo: damaged, or not a compiled catalog"),
        ("a.srt", "no times here\n", "a.srt: holds no cue"),
        ("a.vtt", "1\n00:01.000 --> 00:02.000\nx\n", 'a.vtt:1: a WebVTT file begins with "WEBVTT"'),
        ("a.docx", "text", "a.docx: damaged, or not a zip archive"),
        ("a.jsonl", '{"text": "x"}\n[1]\n', "a.jsonl:2: every line must be a JSON object"),
        ("a.jsonl", '{"text": "x"\n', "a.jsonl:1:13: not valid JSON"),
    ],
)
def test_what_is_damaged_is_told_with_its_position(name: str, text: str, told: str) -> None:
    with pytest.raises(DataError) as caught:
        unchanged(text.encode(), name)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


def test_an_unfinished_escape_of_a_catalog_is_its_letter() -> None:
    catalog = unchanged(b'msgid "The \\xgrey dog\\x"\nmsgstr ""\n', "a.po").data
    assert b'msgstr "The xgrey dogx"' in catalog


def test_a_charset_that_does_not_fit_is_told_with_the_byte() -> None:
    with pytest.raises(DataError, match=r"a\.po: byte 7 \(0xFF\) is not valid UTF-8"):
        unchanged(b'msgid "\xff"\nmsgstr ""\n', "a.po")
    with pytest.raises(DataError, match='its charset "klingon" is unknown'):
        unchanged(b'msgid ""\nmsgstr "charset=klingon\\n"\n', "a.po")


def test_a_translation_that_the_charset_lacks_is_told() -> None:
    text = samples.PO.replace("UTF-8", "ISO-8859-1").encode("iso-8859-1")
    with pytest.raises(DataError, match=r"a\.po: its charset ISO-8859-1 has no 'ş'"):
        translate(text, "a.po", ["ş"])


def translate(data: bytes, name: str, written: list[str]) -> bytes:
    from dikkat_runtime.documents.documents import translate_document

    return translate_document(data, name, lambda texts: written * len(texts), options=ENGLISH_FRENCH).data


def test_xml_says_in_references_what_its_charset_lacks() -> None:
    text = '<?xml version="1.0" encoding="US-ASCII"?>' + samples.XLIFF_2
    assert b"&#351;" in translate(text.encode("ascii"), "a.xlf", ["ş"])


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE_SIZE", 1 << 20)
    with pytest.raises(DataError, match=r"a\.docx: unpacks to more than 1 MiB; not read"):
        unchanged(samples.word_document(word__media__bomb=b"\0" * (2 << 20)), "a.docx")


def test_a_zip_that_lies_about_its_size_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE_SIZE", 1 << 20)
    data = samples.word_document(word__media__bomb=b"\0" * (2 << 20))
    small = data.replace((2 << 20).to_bytes(4, "little"), (9).to_bytes(4, "little"))
    with pytest.raises(DataError):
        unchanged(small, "a.docx")


@pytest.mark.parametrize("path", ["../outside.xml", "/etc/passwd", "word/../../x", "..\\x", "c:/x"])
def test_a_path_that_leads_outside_is_refused(path: str) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("word/document.xml", samples.WORD_BODY)
        archive.writestr(path, "x")
    with pytest.raises(DataError, match="leads outside of the archive"):
        unchanged(target.getvalue(), "a.docx")


def test_a_zip_without_a_document_is_no_word_document() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("x.txt", "x")
    with pytest.raises(DataError, match="not a Word, PowerPoint or Excel document: its main part is missing"):
        unchanged(target.getvalue(), "a.docx")


def test_a_column_or_language_that_is_missing_is_told() -> None:
    with pytest.raises(UsageError, match='no column is called "english"; known: id, source, target'):
        translate_document_with(samples.CSV, "a.csv", Options(source_column="english"))
    with pytest.raises(UsageError, match="does not name its languages"):
        translate_document_with(samples.TMX, "a.tmx", Options())
    with pytest.raises(UsageError, match="not a document that can be translated whole"):
        translate_document_with("text", "a.bin", Options())


def translate_document_with(text: str, name: str, options: Options) -> None:
    from dikkat_runtime.documents.documents import translate_document

    translate_document(text.encode(), name, same, options=options)


def test_what_nests_deep_or_never_closes_is_read_or_refused() -> None:
    """What nests deep or never closes is read or refused; a stack or a pattern that explodes would not end."""
    for name, text in (
        ("a.html", "<b>" * 500 + "The dog sleeps." + "</b>" * 500),
        ("a.html", "<" * 20_000),
        ("a.md", "[" * 1_000 + "The dog" + "]" * 1_000),
        ("a.md", "*a " * 500),
        ("a.md", "`" * 100_000),
        ("a.md", "<a " * 3_000),
        ("a.srt", "0:0" * 50_000),
        ("a.xlf", '<xliff version="1.2">' + "<g>" * 500 + "</g>" * 500 + "</xliff>"),
    ):
        message = ""
        try:
            unchanged(text.encode(), name)
        except DikkatError as error:
            message = str(error)
        assert "\n" not in message


def test_the_output_is_whole_or_absent_and_the_input_never_touched(tmp_path: Path) -> None:
    source, target = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text(samples.PO, encoding="utf-8")

    def fails(texts: object) -> list[str]:
        raise DataError("in the middle")

    with pytest.raises(DataError, match="in the middle"):
        translate_file(source, target, fails, align=in_order, options=ENGLISH_FRENCH)
    assert sorted(tmp_path.iterdir()) == [source]
    with pytest.raises(UsageError, match="is the input file, which is never overwritten"):
        translate_file(source, source, same, align=in_order, options=ENGLISH_FRENCH)
    with pytest.raises(MissingInputError, match="cannot be read"):
        translate_file(tmp_path / "nothing.po", target, same, align=in_order, options=ENGLISH_FRENCH)
    for name in ("b.mo", "b.pdf", "b.docx"):
        with pytest.raises(UsageError, match=r"its format is that of .*a\.po; give --out the same ending"):
            translate_file(source, tmp_path / name, same, align=in_order, options=ENGLISH_FRENCH)
    assert sorted(tmp_path.iterdir()) == [source]
    for name in ("b.pot", "b", "b.new"):
        translate_file(source, tmp_path / name, same, align=in_order, options=ENGLISH_FRENCH)
    assert source.read_text(encoding="utf-8") == samples.PO
    translate_file(source, target, same, align=in_order, options=ENGLISH_FRENCH)
    assert 'msgstr "The small cat is sleeping."' in target.read_text(encoding="utf-8")
