"""The parts of a Word document beside its paragraphs: comments, controls in a text, and fields, which stay."""

from __future__ import annotations

import zipfile
from io import BytesIO

from tests.unit.documents.samples import WORD_BODY, word_document
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting, unchanged

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.office import FIELDS

HEAD = WORD_BODY.partition("<w:body>")[0]


def part(name: str, data: bytes) -> str:
    written = translate_document(data, "a.docx", shouting, align=in_order, options=ENGLISH_FRENCH).data
    return zipfile.ZipFile(BytesIO(written)).read(name).decode()


def with_field(code: str) -> tuple[str, bytes]:
    """A field in a document, and the document."""
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    code = f"<w:r><w:instrText>{code}</w:instrText></w:r>"
    field = f"{mark.format('begin')}{code}{mark.format('separate')}<w:r><w:t>cat</w:t></w:r>{mark.format('end')}"
    text = f'<w:p><w:r><w:t xml:space="preserve">The </w:t></w:r>{field}<w:r><w:t> sleeps</w:t></w:r></w:p>'
    return field, word_document(f"{HEAD}<w:body>{text}</w:body></w:document>")


def test_comments_are_translated() -> None:
    comment = HEAD.replace("w:document", "w:comments") + "<w:p><w:r><w:t>A dog</w:t></w:r></w:p></w:comments>"
    with zipfile.ZipFile(source := BytesIO(), "w") as archive:
        archive.writestr("word/document.xml", WORD_BODY)
        archive.writestr("word/comments.xml", comment)
    assert ">A DOG</w:t>" in part("word/comments.xml", source.getvalue())


def test_a_control_in_a_text_is_read_and_kept_once() -> None:
    control = '<w:sdt><w:sdtPr><w:id w:val="7"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    text = f"<w:p>{run.format('The ')}{control.format(run.format('big dog'))}{run.format(' sleeps')}</w:p>"
    written = part("word/document.xml", word_document(f"{HEAD}<w:body>{text}</w:body></w:document>"))
    assert control.format(run.format("BIG DOG")) in written
    assert written.count("<w:sdt>") == 1


def test_fields_with_text_stay_and_are_counted() -> None:
    field, data = with_field("DATE")
    assert field in part("word/document.xml", data)
    assert unchanged(data, "a.docx").remarks[FIELDS] == 1


def test_the_shown_text_of_a_link_is_translated_inside_its_field() -> None:
    field, data = with_field('HYPERLINK "http://a.b"')
    wanted = field.replace("<w:t>cat<", '<w:t xml:space="preserve">CAT<')
    assert wanted in part("word/document.xml", data)
    assert unchanged(data, "a.docx").data == data
