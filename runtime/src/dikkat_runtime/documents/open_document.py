"""Read documents of OpenDocument (`.odt`, `.ods`, `.odp`): paragraphs, headings, cells, notes and text boxes.

Source: OASIS, OpenDocument 1.3, part 3.
"""

import re
from collections import Counter
from collections.abc import Sequence

from dikkat_runtime.documents.archives import Archive, ArchiveDocument, check_depth
from dikkat_runtime.documents.decoded_file import TextDocument
from dikkat_runtime.documents.segments import Content, Item, Kind, Options, Segment, Tag, plain, replacement
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, matching, xml_nodes
from dikkat_runtime.documents.xml_references import escaper, text_items
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

_PARTS = re.compile(r"(?:[^/]+/)?(?:content|styles)\.xml")
_TEXTS = frozenset(("p", "h"))
_PAIRED = frozenset(("span", "a", "meta", "meta-field", "ruby-base"))
_VOID = (
    "bookmark|bookmark-start|bookmark-end|reference-mark|reference-mark-start|reference-mark-end|s|soft-page-break|"
    "annotation-end|change|change-start|change-end|frame|custom-shape|note|annotation|line-break|tab"
)
_MARKS = frozenset(_VOID.split("|"))
_KEPT = frozenset(("tracked-changes", "script", "forms"))
FORMULAS = msg("cells whose text a formula computes, left as they are")


def read_open_document(data: bytes, name: str, options: Options) -> ArchiveDocument:
    """Read all paragraphs with text. Raises `DataError` for no OpenDocument file, and for an encrypted one."""
    archive = Archive.read(data, name)
    paths = {info.filename: content for info, content in archive.entries}
    if "content.xml" not in paths:
        raise DataError("{name}: not an OpenDocument file: it has no content.xml", name)
    if b"encryption-data" in paths.get("META-INF/manifest.xml", b""):
        raise DataError("{name}: is encrypted; save it without a password", name)
    remarks: Counter[str] = Counter()
    return ArchiveDocument.read(
        archive, name, _PARTS, lambda path, content: _part(content, f"{name}/{path}", remarks), remarks
    )


def _part(data: bytes, name: str, remarks: Counter[str]) -> TextDocument:
    file = decode_xml(data, name)
    nodes = xml_nodes(file, remarks)
    partner = matching(nodes)
    check_depth(file, nodes, partner, _TEXTS | _PAIRED)
    segments: list[Segment] = []
    skipped = -1
    for number, node in enumerate(nodes):
        if node.kind != "open" or number < skipped:
            continue
        is_formula = node.local == "table-cell" and "table:formula" in node.attributes
        if is_formula or node.local in _KEPT:
            skipped = partner[number]
            remarks[FORMULAS] += is_formula
        elif node.local in _TEXTS:
            start, end = node.end, nodes[partner[number]].start
            content = _content(nodes, partner, number + 1, partner[number])
            if has_words(plain(content)):
                edits = replacement(start, end, content, escaper(file.text[start:end]))
                segments.append(Segment(content, edits, file.line(start), start))
    return TextDocument(file, segments, markup=False, errors="xmlcharrefreplace")


def _content(nodes: Sequence[Node], partner: dict[int, int], first: int, last: int) -> Content:
    """Return text and tags; other elements than spans and marks stand for a word, such as fields."""
    items: list[Item] = []
    number, closes = first, dict[int, int]()
    while number < last:
        node, end = nodes[number], partner.get(number, number)
        if node.kind in ("text", "cdata"):
            items += text_items(node.raw) if node.kind == "text" else [node.text]
        elif node.kind == "open" and node.local in _PAIRED:
            items.append(Tag("open", node.raw, number + 1))
            closes[end] = number + 1
        elif number in closes:
            items.append(Tag("close", node.raw, closes[number]))
        else:
            raw = "".join(other.raw for other in nodes[number : end + 1])
            kind: Kind = "void" if node.local in _MARKS or node.kind == "other" else "word"
            items.append(Tag(kind, raw, number + 1, node.local in ("line-break", "tab"), start=node.start))
            number = end
        number += 1
    return tuple(item for item in items if item != "")
