"""Read e-books (`.epub`): their chapters as pages of HTML, and the titles of the book and of its contents.

Sources: W3C, EPUB 3.3; IDPF, OPF 2.0.1 with NCX.
"""

import re
from collections import Counter
from itertools import pairwise

from dikkat_runtime.documents.archives import Archive, ArchiveDocument
from dikkat_runtime.documents.decoded_file import TextDocument
from dikkat_runtime.documents.html import page_document
from dikkat_runtime.documents.segments import Edit, Options, Segment, is_language, replacement
from dikkat_runtime.documents.xml_nodes import decode_xml, xml_nodes
from dikkat_runtime.documents.xml_references import escaper
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.placeholders import has_words

_PARTS = re.compile(r".*\.(?:xhtml|html?|xml|ncx|opf)", re.IGNORECASE)
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>|<!--.{0,1000}?-->|<!DOCTYPE[^>]*>|\s)*<html\b", re.DOTALL)
_TITLES = frozenset(("text", "dc:title", "dc:description"))
_PROTECTED = re.compile(rb"""URI\s*=\s*["'][^"']*\.(?:x?html?|xml)["']""")


def read_epub(data: bytes, name: str, options: Options) -> ArchiveDocument:
    """Read the chapters and titles of a book. Raises `DataError` for no book, and for one that is protected."""
    archive = Archive.read(data, name)
    paths = {info.filename: content for info, content in archive.entries}
    if "META-INF/container.xml" not in paths:
        raise DataError("{name}: not an e-book: it has no META-INF/container.xml", name)
    if _PROTECTED.search(paths.get("META-INF/encryption.xml", b"")):
        raise DataError("{name}: is protected against copying; only its publisher can open it", name)

    def read(path: str, content: bytes) -> TextDocument | None:
        where = f"{name}/{path}"
        if path.lower().endswith((".ncx", ".opf")):
            return _titles(content, where, options)
        if path.startswith("META-INF/") or not _PAGE.match(content[:4096]):
            return None
        file = decode_xml(content, where)
        return page_document(file, options)

    return ArchiveDocument.read(archive, name, _PARTS, read, Counter())


def _titles(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the titles of a book, or of its contents, and its language, which becomes that of the translation."""
    file, remarks = decode_xml(data, name), Counter[str]()
    nodes, segments, also = xml_nodes(file, remarks), list[Segment](), list[Edit]()
    for before, node in pairwise(nodes):
        if before.kind != "open" or node.kind != "text":
            continue
        text = node.text
        if before.name in _TITLES and has_words(text):
            edits = replacement(node.start, node.end, (text,), escaper(node.raw))
            segments.append(Segment((text,), edits, file.line(node.start), node.start))
        elif before.name == "dc:language" and options.target_language and is_language(text, options.source_language):
            also.append(Edit(node.start, node.end, options.target_language.replace("_", "-")))
    return TextDocument(file, segments, remarks, also, markup=False, errors="xmlcharrefreplace")
