"""Texts of any number of characters that try to take more time than their size, and files around them."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from xml.sax.saxutils import escape

Grown = Callable[[int], str]
"""Returns a text of about this many characters."""
Wrapped = Callable[[str], bytes]
"""Returns a file with a text in it."""
XLIFF_1 = (
    '<xliff version="1.2"><file original="a" source-language="en" target-language="fr" datatype="x"><body>{}'
    "</body></file></xliff>"
)
XLIFF_2 = '<xliff version="2.1" srcLang="en" trgLang="fr"><file id="f">{}</file></xliff>'
TMX = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'
WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"


def repeated(unit: str, before: str = "", after: str = "") -> Grown:
    """Return a text that repeats a unit, in which `{n}` is a number, between two others."""

    def grown(size: int) -> str:
        if "{n}" not in unit:
            return before + unit * (size // len(unit)) + after
        length, units = 0, list[str]()
        while length < size:
            units.append(unit.replace("{n}", str(len(units))))
            length += len(units[-1])
        return before + "".join(units) + after

    return grown


def nested(opening: str, closing: str, inside: str = "a dog") -> Grown:
    """Return a text that repeats an opening unit, and as often a closing one."""

    def grown(size: int) -> str:
        depth = size // len(opening + closing)
        return opening * depth + inside + closing * depth

    return grown


TEXTS: dict[str, Grown] = {
    "digits": repeated("9"),
    "one word": repeated("a"),
    "words": repeated("dog "),
    "one sentence": repeated("The dog sleeps, "),
    "sentences": repeated("The dog sleeps. "),
    "short sentences": repeated("A! "),
    "full stops": repeated(". "),
    "spaces": repeated(" ", "a", "b"),
    "tabs": repeated("\t \t", "a", "b"),
    "signs": repeated("!", "dog ", " dog"),
    "quotation marks": repeated('"', "a", "b"),
    "apostrophes": repeated("'a", "dog "),
    "brackets": repeated("<", "dog "),
    "open tags": repeated("<i>", "dog "),
    "pairs": repeated("<b>a</b> "),
    "pairs in pairs": nested("<i>a ", "</i> b"),
    "void tags": repeated("<x/> dog "),
    "void tags alone": repeated("<x/>", "a ", " dog"),
    "breaks": repeated("a<br>"),
    "placeholders": repeated("{a} dog "),
    "placeholders side by side": repeated("{a}", "dog "),
    "one placeholder after another": repeated("{a{n}} dog "),
    "braces": repeated("{", "dog "),
    "plurals": repeated("{a,plural,", "dog "),
    "percents": repeated("%0", "dog "),
    "zeros": repeated("0", "dog %"),
    "addresses": repeated("a@", "dog "),
    "URLs": repeated("http://a ", "dog "),
    "references": repeated("&#{n}1; "),
    "ampersands": repeated("&", "dog "),
    "private characters": repeated("\ue000 a"),
    "dashes": repeated("- ", "dog "),
    "colons": repeated("a:", "dog "),
    "clocks": repeated("0:0", "dog "),
    "backslashes": repeated("\\", "dog "),
    "ideograms": repeated("\u5b57"),
    "words with a mark": repeated("_a ", "dog "),
    "names": repeated("Q{n} {a} ", "dog "),
}


def cue(text: str) -> bytes:
    """Return subtitles of one cue."""
    return f"{CUE}{text}\n".encode()


def catalog(text: str) -> bytes:
    """Return a gettext catalog of one message."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'#, c-format\nmsgid "{quoted}"\nmsgstr ""\n'.encode()


def compiled(text: str) -> bytes:
    """Return a compiled catalog of one message."""
    source = text.encode()
    head = struct.pack("<7I", 0x950412DE, 0, 1, 28, 36, 0, 44)
    return head + struct.pack("<4I", len(source), 44, 0, 44 + len(source)) + source + b"\0"


def word(body: str) -> bytes:
    """Return a Word document that is not compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("word/document.xml", WORD.format(body))
    return target.getvalue()


def stored(**entries: str) -> bytes:
    """Return an archive that is not compressed; a slash in a name is written as two underscores."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("__", "/"), content)
    return target.getvalue()


def slide(markup: str) -> bytes:
    """Return a presentation of one paragraph."""
    return stored(
        **{
            "ppt__presentation.xml": "",
            "ppt__slides__slide1.xml": f"<p:sld xmlns:p='p' xmlns:a='a'><a:p>{markup}</a:p></p:sld>",
        }
    )


def cells(markup: str) -> bytes:
    """Return a spreadsheet of shared strings."""
    return stored(**{"xl__workbook.xml": "", "xl__sharedStrings.xml": f"<sst>{markup}</sst>"})


def open_text(markup: str) -> bytes:
    """Return a text of OpenDocument."""
    return stored(
        **{"content.xml": f"<o:text xmlns:o='o' xmlns:text='t' xmlns:draw='d' xmlns:table='s'>{markup}</o:text>"}
    )


def chapter(markup: str) -> bytes:
    """Return a book of one chapter."""
    page = f"<html xmlns='h'><body>{markup}</body></html>"
    return stored(mimetype="application/epub+zip", **{"META-INF__container.xml": "", "a.xhtml": page})


def unit(markup: str) -> bytes:
    """Return an XLIFF file of one unit."""
    return XLIFF_1.format(f'<trans-unit id="1"><source>{markup}</source></trans-unit>').encode()


def unit_2(markup: str) -> bytes:
    """Return an XLIFF 2 file of one unit."""
    return XLIFF_2.format(f'<unit id="1"><segment><source>{markup}</source></segment></unit>').encode()


def memory(markup: str) -> bytes:
    """Return a translation memory of one unit."""
    return TMX.format(f'<tu><tuv xml:lang="en"><seg>{markup}</seg></tuv></tu>').encode()


def utf8(text: str) -> bytes:
    """Return a file of text alone."""
    return text.encode()


WRAPPED: dict[str, Wrapped] = {
    "a.srt": cue,
    "a.vtt": lambda text: b"WEBVTT\n\n" + cue(text),
    "a.xlf": lambda text: unit(escape(text)),
    "a.2.xlf": lambda text: unit_2(escape(text)),
    "a.tmx": lambda text: memory(escape(text)),
    "a.po": catalog,
    "a.mo": compiled,
    "a.md": utf8,
    "a.html": lambda text: f"<p>{text}</p>".encode(),
    "a.docx": lambda text: word(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"),
    "a.tsv": lambda text: b"text\n" + text.replace("\t", " ").encode(),
    "a.csv": lambda text: ('text\n"' + text.replace('"', '""') + '"\n').encode(),
    "a.jsonl": lambda text: (
        '{"text": "' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", " ") + '"}'
    ).encode(),
    "a.json": lambda text: json.dumps({"a": text}).encode(),
    "a.yaml": lambda text: f"a: {json.dumps(text)}\n".encode(),
    "a.properties": lambda text: ("a=" + text.replace("\\", "\\\\")).encode(),
    "a.strings": lambda text: f'"a" = {json.dumps(text, ensure_ascii=False)};\n'.encode(),
    "a.xml": lambda text: f"<resources><string name='a'>{escape(text)}</string></resources>".encode(),
    "a.tex": utf8,
    "a.pptx": lambda text: slide(f"<a:r><a:t>{escape(text)}</a:t></a:r>"),
    "a.xlsx": lambda text: cells(f"<si><t>{escape(text)}</t></si>"),
    "a.odt": lambda text: open_text(f"<text:p>{escape(text)}</text:p>"),
    "a.epub": lambda text: chapter(f"<p>{escape(text)}</p>"),
    "text": utf8,
    "fragment.html": utf8,
    "fragment.xml": utf8,
}


def web(text: str) -> bytes:
    """Return a WebVTT file of a text."""
    return f"WEBVTT\n\n{text}".encode()


def units(markup: str) -> bytes:
    """Return an XLIFF file of units."""
    return XLIFF_1.format(markup).encode()


def units_2(markup: str) -> bytes:
    """Return an XLIFF 2 file of units."""
    return XLIFF_2.format(markup).encode()


def memories(markup: str) -> bytes:
    """Return a translation memory of units."""
    return TMX.format(markup).encode()


def paragraph(markup: str) -> bytes:
    """Return a Word document of one paragraph."""
    return word(f"<w:p>{markup}</w:p>")


Case = tuple[str, str, Callable[[int], bytes]]
"""The name of a file, the shape of its text, and the file of a size."""


def case(name: str, shape: str, grown: Grown, wrapped: Wrapped = utf8) -> Case:
    """Return a case whose file is made of a text."""
    return name, shape, lambda size: wrapped(grown(size))
