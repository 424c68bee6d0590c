"""Read documents of Office (`.docx`, `.pptx`, `.xlsx`): a paragraph is a segment, the format of a run a pair of tags.

Source: ECMA-376, part 1: chapters 17 (WordprocessingML), 18.4 (shared strings) and 21 (DrawingML).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from dikkat_runtime.documents.archives import Archive, ArchiveDocument, check_depth
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Content, Item, Kind, Options, Segment, Tag, plain
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, matching, xml_nodes
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

_MAIN = re.compile(r"word/document\.xml|ppt/presentation\.xml|xl/workbook\.xml")
_TEXTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_DRAWINGS = re.compile(
    r"ppt/(?:slides|notesSlides)/[^/]+\.xml"
    r"|(?:word|ppt|xl)/(?:charts/chart\d*|diagrams/(?:data|drawing)\d*|drawings/drawing\d*)\.xml"
)
_CELLS = re.compile(r"xl/(?:sharedStrings|comments\d*|worksheets/[^/]+)\.xml")
_TABLES = re.compile(r"xl/(?:tables|pivotCache)/[^/]+\.xml")
_PAIRED = frozenset(("hyperlink", "ins", "smartTag", "moveTo"))
_DROPPED = frozenset(("proofErr", "lastRenderedPageBreak", "softHyphen", "rPh", "phoneticPr"))
_ENDS = frozenset(("br", "tab", "cr", "ptab"))
_IDENTITY = re.compile(r"""\s(?:[\w-]+:rsid\w*|dirty|err|smtClean|lang|altLang)=(?:"[^"]*"|'[^']*')""")
_EMPTY = re.compile(r"<[\w:]*rPr\s*/>|<([\w:]*rPr)>\s*</\1>")
_RUN = "run:"
"""Prefix of the markup of a tag for the formatting of a run, which is written into each run."""
_LINK = re.compile(r"\s*HYPERLINK\b")
_MAX_TABLE = 1 << 20
FIELDS = msg("fields whose displayed text is kept")
HEADS = msg("table headers that formulas refer to")


def read_office(data: bytes, name: str, options: Options) -> ArchiveDocument:
    """Read all paragraphs with text: of body, headers, notes, comments, text boxes, slides, charts and cells.

    Raises `DataError` for no document of Office.
    """
    archive = Archive.read(data, name)
    remarks: Counter[str] = Counter()
    if not any(_MAIN.fullmatch(info.filename) for info, _ in archive.entries):
        raise DataError("{name}: not a Word, PowerPoint or Excel document: its main part is missing", name)
    heads = frozenset(_heads(archive, name))

    def read(path: str, content: bytes) -> TextDocument | None:
        paragraphs = {"p"} if _TEXTS.fullmatch(path) or _DRAWINGS.fullmatch(path) else {"si", "is", "text"}
        if "si" in paragraphs and "sheets/" in path and b"is>" not in content:
            return None
        part = _Part(decode_xml(content, f"{name}/{path}"), remarks, frozenset(paragraphs), heads)
        part.has_space = _DRAWINGS.fullmatch(path) is None
        return part.document()

    parts = re.compile("|".join(pattern.pattern for pattern in (_TEXTS, _DRAWINGS, _CELLS)))
    return ArchiveDocument.read(archive, name, parts, read, remarks)


def _heads(archive: Archive, name: str) -> Iterable[str]:
    """Yield the names of the columns of tables: the cells that show them must not change."""
    for info, content in archive.entries:
        if _TABLES.fullmatch(info.filename) and len(content) < _MAX_TABLE:
            nodes = xml_nodes(decode_xml(content, f"{name}/{info.filename}"), Counter())
            columns = (node for node in nodes if node.local in ("tableColumn", "cacheField"))
            yield from (column.attributes.get("name", "") for column in columns)


class _Part:
    has_space = True
    """True if a text may say that its white space counts."""

    def __init__(
        self, file: DecodedFile, remarks: Counter[str], paragraphs: frozenset[str], heads: frozenset[str]
    ) -> None:
        self._file, self._remarks, self._paragraphs, self._heads = file, remarks, paragraphs, heads
        self._nodes = xml_nodes(file, remarks)
        if any(node.raw.startswith("<!DOCTYPE") for node in self._nodes):
            raise DataError("{name}: declares a document type, as no Office document does; not read", file.name)
        self._partner = matching(self._nodes)
        check_depth(file, self._nodes, self._partner, paragraphs | _PAIRED | {"sdt"})

    def document(self) -> TextDocument:
        """Return the part with its segments; those of a text box stand in a tag of the paragraph around it."""
        segments = [
            segment
            for number, node in enumerate(self._nodes)
            if node.kind == "open" and node.local in self._paragraphs and (segment := self._paragraph(number))
        ]
        return TextDocument(self._file, segments, markup=False, errors="xmlcharrefreplace")

    def _paragraph(self, number: int) -> Segment | None:
        first, last = number + 1, self._partner[number]
        if self._nodes[first].local == "pPr":
            first = self._partner[first] + 1
        name = self._nodes[number]
        prefix = name.name.removesuffix(name.local)
        reader = _Runs(self._nodes, self._partner, prefix, self._remarks)
        content = reader.read(first, last)
        if not has_words(plain(content)):
            return None
        if plain(content) in self._heads:
            self._remarks[HEADS] += 1
            return None
        start, end_at = self._nodes[first].start, self._nodes[last].start
        space = ' xml:space="preserve"' if self.has_space else ""
        write = partial(_written, base=reader.base, is_direct=reader.is_direct, prefix=prefix, space=space)
        return self._file.segment(start, end_at, content, write)


class _Runs:
    """A reader of the runs of a paragraph; neighbours of one format are one."""

    def __init__(self, nodes: Sequence[Node], partner: dict[int, int], prefix: str, remarks: Counter[str]) -> None:
        self._nodes, self._partner, self._prefix, self._remarks = nodes, partner, prefix, remarks
        self._pieces: list[tuple[str, Item]] = []
        """Each with the format of its run; that of a tag between runs is empty."""
        self.base = ""
        """The format of most of the text, which needs no tag."""
        self.is_direct = False
        """True if a text stands without a run, as in cells."""

    def read(self, first: int, last: int) -> Content:
        """Return text and tags of the nodes from `first` to before `last`."""
        self._walk(first, last)
        sizes: Counter[str] = Counter()
        for style, item in self._pieces:
            if isinstance(item, str):
                sizes[style] += len(item)
        self.base = max(sizes, key=lambda style: sizes[style], default="")
        items: list[Item] = []
        style, pair = self.base, 0
        for number, (own, item) in enumerate(self._pieces):
            wanted = own if isinstance(item, str) else style if item.kind == "void" and own == style else self.base
            if wanted != style:
                items += [Tag("close", _RUN, pair)] if style != self.base else []
                items += [Tag("open", _RUN + wanted, -1 - number)] if wanted != self.base else []
                style, pair = wanted, -1 - number
            items.append(item)
        if style != self.base:
            items.append(Tag("close", _RUN, pair))
        return tuple(items)

    def _walk(self, first: int, last: int) -> None:
        number = first
        while number < last:
            node = self._nodes[number]
            end = self._partner.get(number, number)
            if node.local == "r" and node.kind == "open":
                end = self._run(number, last)
            elif node.local == "t" and node.kind == "open":
                self.is_direct = True
                self._pieces.append(("", "".join(inner.text for inner in self._nodes[number:end])))
            elif node.local == "sdt" and node.kind == "open" and (inside := self._control(number)):
                # a control, whose content is text like any other
                self._pieces.append(("", Tag("open", self._raw(number, inside), number + 1)))
                self._walk(inside + 1, self._partner[inside])
                self._pieces.append(("", Tag("close", self._raw(self._partner[inside], end), number + 1)))
            elif node.local in _PAIRED and node.kind == "open":
                self._pieces.append(("", Tag("open", node.raw, number + 1)))
                self._walk(number + 1, end)
                self._pieces.append(("", Tag("close", self._nodes[end].raw, number + 1)))
            elif node.local not in _DROPPED and node.kind in ("open", "empty"):
                raw, ends = self._raw(number, end), node.local in _ENDS
                kind: Kind = "word" if node.local in ("fld", "fldSimple") else "void"
                self._remarks[FIELDS] += kind == "word"
                self._pieces.append(("", Tag(kind, raw, number + 1, ends, start=node.start)))
            number = end + 1

    def _control(self, number: int) -> int:
        """Return the content of a control that stands right in it; 0 where it has none."""
        inside = number + 1
        while inside < self._partner[number] and self._nodes[inside].local != "sdtContent":
            inside = self._partner.get(inside, inside) + 1
        return inside if inside < self._partner[number] and self._nodes[inside].kind == "open" else 0

    def _run(self, number: int, last: int) -> int:
        """Read one run, or all runs of a field; return the number of the last node."""
        end = self._partner[number]
        if field_end := self._field_end(number, last):
            begin, stop = self._shown(number, field_end)
            if stop:
                self._pieces.append(("", Tag("open", self._raw(number, begin), number + 1)))
                self._walk(begin + 1, stop)
                self._pieces.append(("", Tag("close", self._raw(stop, field_end), number + 1)))
                return field_end
            self._remarks[FIELDS] += any(node.local == "t" for node in self._nodes[number:field_end])
            raw = self._raw(number, field_end)
            self._pieces.append(("", Tag("word", raw, number + 1, start=self._nodes[number].start)))
            return field_end
        style, index = "", number + 1
        while index < end:
            node, close = self._nodes[index], self._partner.get(index, index)
            if node.local == "rPr":
                style = _EMPTY.sub("", _IDENTITY.sub("", self._raw(index, close)))
            elif node.local == "t":
                self._pieces.append((style, "".join(node.text for node in self._nodes[index:close])))
            elif node.local == "noBreakHyphen":
                self._pieces.append((style, "\u2011"))
            elif node.local not in _DROPPED and node.kind in ("open", "empty"):
                lead = f"<{self._prefix}r>{style}"
                raw = f"{lead}{self._raw(index, close)}</{self._prefix}r>"
                tag = Tag("void", raw, index + 1, node.local in _ENDS, start=max(node.start - len(lead), 0))
                self._pieces.append((style, tag))
            index = close + 1
        return end

    def _field_end(self, number: int, last: int) -> int | None:
        """Return the last node of a field that begins in this run, or None where none does."""
        depth = 0
        for index in range(number, last):
            node = self._nodes[index]
            if node.local == "fldChar" and node.kind in ("open", "empty"):
                depth += {"begin": 1, "end": -1}.get(self._field_kind(index), 0)
                if depth == 0:
                    return next((close for close in range(index, last) if self._is_close_of_run(close)), last - 1)
            elif depth == 0 and self._is_close_of_run(index):
                return None
        return last - 1 if depth else None

    def _shown(self, number: int, end: int) -> tuple[int, int]:
        """Return the end of the run before the shown text of a link, and the beginning of the one after it; or 0, 0."""
        runs, position, depth, code = list[tuple[int, str]](), number, 0, ""
        while position <= end and self._nodes[position].local == "r":
            inside = range(position, self._partner[position])
            code += "".join(
                self._nodes[at + 1].text for at in inside if self._nodes[at].local == "instrText" and not runs
            )
            kinds = [self._field_kind(at) for at in inside if self._nodes[at].local == "fldChar"]
            depth += kinds.count("begin") - kinds.count("end")
            if (depth == 1 and kinds == ["separate"]) or (depth == 0 and kinds):
                runs.append((position, kinds[-1]))
            position = self._partner[position] + 1
        if len(runs) != 2 or [kind for _, kind in runs] != ["separate", "end"] or not _LINK.match(code):
            return 0, 0
        return self._partner[runs[0][0]], runs[1][0]

    def _field_kind(self, number: int) -> str:
        attributes = self._nodes[number].attributes.items()
        return next((value for name, value in attributes if name.endswith("fldCharType")), "")

    def _is_close_of_run(self, number: int) -> bool:
        return self._nodes[number].local == "r" and self._nodes[number].kind == "close"

    def _raw(self, start: int, end: int) -> str:
        return "".join(node.raw for node in self._nodes[start : end + 1])


def _written(translation: Content, base: str, is_direct: bool, prefix: str, space: str) -> str:
    """Return a translation in runs, or where `is_direct` without any."""
    parts: list[str] = []
    styles = [base]
    for item in translation:
        if isinstance(item, Tag) and item.markup.startswith(_RUN):
            styles = [*styles, item.markup[len(_RUN) :]] if item.kind == "open" else styles[:-1]
        elif isinstance(item, Tag) and not item.is_text:
            parts.append(item.markup)
        else:
            text = escaped(item if isinstance(item, str) else item.markup)
            run = f"<{prefix}r>{styles[-1]}<{prefix}t{space}>{text}</{prefix}t></{prefix}r>"
            parts.append(text if is_direct else run)
    written = "".join(parts)
    return f"<{prefix}t{space}>{written}</{prefix}t>" if is_direct else written
