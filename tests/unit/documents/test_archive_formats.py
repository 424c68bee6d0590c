"""Documents that are archives: their texts are translated, every other byte of every entry stays."""

from __future__ import annotations

import io
import re
import zipfile
from xml.etree import ElementTree

import pytest
from tests.unit.documents import archive_samples as samples
from tests.unit.documents.samples import WORD_BODY, word_document
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting, unchanged

from dikkat_runtime.documents.archives import FORMULAS
from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.formats import find_format
from dikkat_runtime.documents.office import HEADS
from dikkat_runtime.errors import DataError


def shouted(data: bytes, name: str) -> TranslatedDocument:
    return translate_document(data, name, shouting, align=in_order, options=ENGLISH_FRENCH)


def entries(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info).decode("latin-1") for info in file.infolist()}


@pytest.mark.parametrize("name", samples.ARCHIVES)
def test_what_is_translated_into_itself_is_the_same_file(name: str) -> None:
    assert unchanged(samples.ARCHIVES[name], name).data == samples.ARCHIVES[name]


@pytest.mark.parametrize("name", samples.ARCHIVES)
def test_a_renamed_document_is_read_as_what_it_is(name: str) -> None:
    document_format = find_format("letter.bin", samples.ARCHIVES[name])
    assert document_format is not None
    assert document_format.module == (find_format(name) or document_format).module


def test_slides() -> None:
    slide = entries(shouted(samples.ARCHIVES["a.pptx"], "a.pptx").data)["ppt/slides/slide1.xml"]
    ElementTree.fromstring(slide)
    texts = re.findall(r"<a:t>([^<]*)</a:t>", slide)
    assert texts == ["THE ", "BIG DOG", " SLEEPS", "IN TOWN", "7"]
    assert re.search(r'<a:rPr b="1"/><a:t>BIG DOG<', slide)
    assert slide.index("<a:pPr") < slide.index("THE") < slide.index("<a:br/>") < slide.index("<a:endParaRPr")


def test_cells() -> None:
    done = shouted(samples.ARCHIVES["a.xlsx"], "a.xlsx")
    written = entries(done.data)
    strings = ElementTree.fromstring(written["xl/sharedStrings.xml"])
    assert ["".join(cell.itertext()) for cell in strings] == ["A CAT", "THE DOG", "Name", "42"]
    # the name of a column of a table, and what a formula gave, are read by formulas
    assert done.remarks[HEADS] == 1
    sheet = written["xl/worksheets/sheet1.xml"]
    assert sheet == samples.SHEET.replace("<is><t>A red house", '<is><t xml:space="preserve">A RED HOUSE')


def test_paragraphs_notes_and_boxes_of_open_document() -> None:
    done = shouted(samples.ARCHIVES["a.odt"], "a.odt")
    wanted = samples.CONTENT
    for text in ("A title", "The ", "big dog", "A note &amp; more", " sleeps", "in ", " beds.", "A box"):
        shown = text.upper().replace("&AMP;", "&amp;")
        wanted = wanted.replace(f">{text}<", f">{shown}<")
    assert entries(done.data)["content.xml"] == wanted
    assert done.remarks[FORMULAS] == 1


def test_chapters_and_titles_of_a_book() -> None:
    written = entries(shouted(samples.ARCHIVES["a.epub"], "a.epub").data)
    chapter = samples.CHAPTER.replace("A title", "A TITLE").replace("big dog", "BIG DOG").replace('"en"', '"fr"')
    chapter = chapter.replace("The <b>", "THE <b>").replace(" sleeps.", " SLEEPS.").replace("Bob", "BOB")
    assert written["a.xhtml"] == chapter
    assert written["a.opf"] == samples.OPF.replace("The dog", "THE DOG").replace(">en<", ">fr<")
    assert written["toc.ncx"] == samples.NCX.replace("A title", "A TITLE")
    assert written["mimetype"] == "application/epub+zip"


def test_a_text_box_inside_a_paragraph_of_word_is_translated_in_its_tag() -> None:
    head = WORD_BODY.partition("<w:body>")[0]
    box = "<w:pict><w:txbxContent><w:p><w:r><w:t>A {} box</w:t></w:r></w:p></w:txbxContent></w:pict>"
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    text = f"<w:p>{run.format('The dog ')}<w:r>{box.format('red')}{box.format('big')}</w:r>{run.format('sleeps')}</w:p>"
    body = entries(shouted(word_document(f"{head}<w:body>{text}</w:body></w:document>"), "a.docx").data)
    written = body["word/document.xml"]
    ElementTree.fromstring(written)
    assert re.findall("<w:t(?: [^>]*)?>([^<]*)<", written) == ["THE DOG ", "A RED BOX", "A BIG BOX", "SLEEPS"]
    assert written.count("<w:pict>") == 2


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.odt", samples.archive(**{"meta.xml": "<a/>"}), "a.odt: not an OpenDocument file: it has no content.xml"),
        (
            "a.ods",
            samples.archive(**{"content.xml": "\0", "META-INF__manifest.xml": "<encryption-data/>"}),
            "a.ods: is encrypted; save it without a password",
        ),
        (
            "a.epub",
            samples.archive(**{"a.xhtml": "<html/>"}),
            "a.epub: not an e-book: it has no META-INF/container.xml",
        ),
        (
            "a.epub",
            samples.archive(**{"META-INF__container.xml": "", "META-INF__encryption.xml": '<x URI="a.xhtml"/>'}),
            "a.epub: is protected against copying; only its publisher can open it",
        ),
        (
            "a.xlsx",
            samples.archive(**{"a.xml": "<a/>"}),
            "a.xlsx: not a Word, PowerPoint or Excel document: its main part is missing",
        ),
        ("a.pptx", b"PK\x03\x04", "a.pptx: damaged, or not a zip archive (File is not a zip file)"),
    ],
)
def test_what_is_no_such_document_is_refused_in_one_line(name: str, data: bytes, told: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        unchanged(data, name)
