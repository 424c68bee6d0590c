# ruff: noqa: E501
"""Small documents that are archives: a presentation, a spreadsheet, a text and a sheet of OpenDocument, an e-book."""

from __future__ import annotations

import io
import zipfile

_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SLIDE = (
    f'<p:sld {_A} xmlns:p="p"><p:txBody><a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>The </a:t></a:r>'
    '<a:r><a:rPr lang="en-GB" b="1"/><a:t>big dog</a:t></a:r><a:r><a:rPr lang="en-US"/><a:t> sleeps</a:t></a:r><a:br/>'
    '<a:r><a:t>in town</a:t></a:r><a:fld id="{1}" type="slidenum"><a:t>7</a:t></a:fld><a:endParaRPr lang="en-US"/></a:p>'
    "</p:txBody></p:sld>"
)
STRINGS = (
    f'<sst {_S} count="4" uniqueCount="4"><si><t>A cat</t></si><si><r><t>The </t></r><r><rPr><b/></rPr><t>dog</t></r></si>'
    "<si><t>Name</t></si><si><t>42</t></si></sst>"
)
TABLE = f'<table {_S} id="1" name="T" ref="A1:A2"><tableColumns count="1"><tableColumn id="1" name="Name"/></tableColumns></table>'
SHEET = (
    f'<worksheet {_S}><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>A red house</t></is></c>'
    '<c r="B1" t="s"><v>0</v></c><c r="C1" t="str"><f>A1</f><v>A red house</v></c></row></sheetData></worksheet>'
)
_O = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
)
CONTENT = (
    f"<office:document-content {_O}><office:body><office:text><text:h>A title</text:h>"
    '<text:p>The <text:span text:style-name="T1">big dog</text:span><text:note><text:note-citation>1</text:note-citation>'
    "<text:note-body><text:p>A note &amp; more</text:p></text:note-body></text:note> sleeps<text:line-break/>in "
    "<text:page-number>3</text:page-number> beds.<draw:frame><draw:text-box><text:p>A box</text:p></draw:text-box>"
    '</draw:frame></text:p><table:table-cell table:formula="of:=A1"><text:p>A sum</text:p></table:table-cell>'
    "</office:text></office:body></office:document-content>"
)
CHAPTER = (
    '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><head>'
    "<title>A title</title></head><body><p>The <b>big dog</b> sleeps.<br/>&#169; Bob</p><pre>The code</pre></body></html>"
)
OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
    "<dc:title>The dog</dc:title><dc:language>en</dc:language><dc:identifier>An id</dc:identifier></metadata></package>"
)
NCX = (
    "<ncx><navMap><navPoint><navLabel><text>A title</text></navLabel><content src='a.xhtml'/></navPoint></navMap></ncx>"
)


def archive(**entries: str | bytes) -> bytes:
    """An archive of entries by their names, a slash written as two underscores; a `mimetype` is not compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            file.writestr(name.replace("__", "/"), content, kind)
    return target.getvalue()


def presentation(slide: str | bytes = SLIDE) -> bytes:
    return archive(
        **{"ppt__presentation.xml": "<p/>", "ppt__slides__slide1.xml": slide, "ppt__media__a.png": b"\x89\0"}
    )


def spreadsheet(strings: str | bytes = STRINGS) -> bytes:
    parts = {"xl__sharedStrings.xml": strings, "xl__worksheets__sheet1.xml": SHEET, "xl__tables__table1.xml": TABLE}
    return archive(**{"xl__workbook.xml": "<workbook/>"}, **parts)


def open_document(content: str | bytes = CONTENT) -> bytes:
    return archive(mimetype="application/vnd.oasis.opendocument.text", **{"content.xml": content, "meta.xml": "<a/>"})


def book(chapter: str | bytes = CHAPTER) -> bytes:
    parts = {"META-INF__container.xml": "<c/>", "a.opf": OPF, "toc.ncx": NCX, "a.xhtml": chapter}
    return archive(mimetype="application/epub+zip", **parts)


ARCHIVES = {"a.pptx": presentation(), "a.xlsx": spreadsheet(), "a.odt": open_document(), "a.epub": book()}
