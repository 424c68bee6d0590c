"""Read Word documents (`.docx`): a paragraph is a segment, and its formatting a pair of tags for each run.

Source: ECMA-376, part 1, chapter 17 (WordprocessingML).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from dikkat_runtime.documents.archives import Archive
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Content, Edit, Item, Options, Segment, Tag, plain
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, matching, xml_nodes
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

_PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_PAIRED = frozenset(("hyperlink", "ins", "smartTag", "moveTo"))
_DROPPED = frozenset(("proofErr", "lastRenderedPageBreak", "softHyphen"))
_ENDS = frozenset(("br", "tab", "cr", "ptab"))
_IDENTITY = re.compile(r"""\s[\w-]+:rsid\w*=(?:"[^"]*"|'[^']*')""")
_DEEPEST = 16
"""Most paragraphs, links and changes inside each other; Word nests two or three."""
_SMALL, _HIGHEST_RATIO = 1 << 20, 100
"""Bytes of text that every document may have, and how many more for each of its bytes; Word's own stay below 50."""
_RUN = "run:"
"""Prefix of the markup of a tag for the formatting of a run, which is written into each run."""
FIELDS = msg("fields whose displayed text is kept")
INSIDE = msg("text boxes inside a paragraph of text, not translated")


@dataclass
class WordDocument:
    """The parts of a document that hold text, each with its share of the segments."""

    archive: Archive
    parts: list[tuple[str, TextDocument]]
    segments: Sequence[Segment] = ()
    remarks: Counter[str] = field(default_factory=Counter)
    markup: bool = False

    def write(self, translations: Sequence[Content]) -> bytes:
        """Return the document with one translation for each segment."""
        changed = {}
        remaining = iter(translations)
        for path, part in self.parts:
            if own := list(islice(remaining, len(part.segments))):
                changed[path] = part.write(own)
        return self.archive.write(changed)


def read_docx(data: bytes, name: str, options: Options) -> WordDocument:
    """Read all paragraphs with text, of the body, headers, footers and notes.

    Raises `DataError` for no Word document.
    """
    archive = Archive.read(data, name)
    remarks: Counter[str] = Counter()
    parts = []
    texts = [len(content) for info, content in archive.entries if _PARTS.fullmatch(info.filename)]
    if sum(texts) > _SMALL + _HIGHEST_RATIO * len(data):
        raise DataError("{name}: unpacks to more than {max_ratio} times its size, as no document does; not read").fill(
            name, _HIGHEST_RATIO
        )
    for info, content in archive.entries:
        if _PARTS.fullmatch(info.filename):
            file = decode_xml(content, f"{name}/{info.filename}")
            parts.append((info.filename, _Part(file, remarks).document()))
    if archive.content("word/document.xml") is None:
        raise DataError("{name}: not a Word document: it has no word/document.xml", name)
    segments = [segment for _, part in parts for segment in part.segments]
    return WordDocument(archive, parts, segments, remarks)


class _Part:
    """A reader of one part of the document."""

    def __init__(self, file: DecodedFile, remarks: Counter[str]) -> None:
        self._file, self._remarks = file, remarks
        self._nodes = xml_nodes(file, remarks)
        if any(node.raw.startswith("<!DOCTYPE") for node in self._nodes):
            raise DataError("{name}: declares a document type, as no Word document does; not read", file.name)
        self._partner = matching(self._nodes)
        self._check_depth()

    def _check_depth(self) -> None:
        """Raise `DataError` where paragraphs or links stand inside each other deeper than any program writes them."""
        ends: list[int] = []
        for number, node in enumerate(self._nodes):
            if node.kind == "open" and (node.local in ("p", "sdt") or node.local in _PAIRED):
                while ends and ends[-1] < number:
                    ends.pop()
                ends.append(self._partner[number])
                if len(ends) > _DEEPEST:
                    where = f"{self._file.name}:{self._file.line(node.start)}"
                    raise DataError("{where}: {tag} nested deeper than {max_depth}; take it out of the others").fill(
                        where, node.local, _DEEPEST
                    )

    def document(self) -> TextDocument:
        """Return the part with its segments."""
        segments = []
        covered = -1
        for number, node in enumerate(self._nodes):
            if number < covered or node.local != "p" or node.kind != "open":
                continue
            segment, is_whole = self._paragraph(number)
            if segment is not None:
                segments.append(segment)
            if is_whole:
                covered = self._partner[number]
        return TextDocument(self._file, segments, markup=False, errors="xmlcharrefreplace")

    def _paragraph(self, number: int) -> tuple[Segment | None, bool]:
        """Return the segment of a paragraph, and whether the paragraph is read completely."""
        first, last = number + 1, self._partner[number]
        if self._nodes[first].local == "pPr":
            first = self._partner[first] + 1
        inside = (self._nodes[index] for index in range(first, last))
        inner = any(node.local == "p" and node.kind == "open" for node in inside)
        prefix = self._nodes[number].name.removesuffix("p")
        reader = _Runs(self._nodes, self._partner, prefix, self._remarks)
        content = reader.read(first, last)
        if not has_words(plain(content)):
            return None, not inner
        if inner:
            self._remarks[INSIDE] += 1
        start, end = self._nodes[first].start, self._nodes[last].start
        edits = _edits(start, end, reader.base, prefix)
        return Segment(content, edits, self._file.line(start)), True


class _Runs:
    """A reader of the runs of a paragraph; neighbours of one format are one."""

    def __init__(self, nodes: Sequence[Node], partner: dict[int, int], prefix: str, remarks: Counter[str]) -> None:
        self._nodes, self._partner, self._prefix, self._remarks = nodes, partner, prefix, remarks
        self._pieces: list[tuple[str, Item]] = []
        """Each with the format of its run; that of a tag between runs is empty."""
        self.base = ""
        """The format of most of the text, which needs no tag."""

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
                items += self._switched(style, wanted, pair, number)
                style, pair = wanted, -1 - number
            items.append(item)
        if style != self.base:
            items.append(Tag("close", _RUN, pair))
        return tuple(items)

    def _switched(self, before: str, after: str, pair: int, number: int) -> list[Item]:
        closed = [Tag("close", _RUN, pair)] if before != self.base else []
        opened = [Tag("open", _RUN + after, -1 - number)] if after != self.base else []
        return [*closed, *opened]

    def _walk(self, first: int, last: int) -> None:
        number = first
        while number < last:
            node = self._nodes[number]
            end = self._partner.get(number, number)
            if node.local == "r" and node.kind == "open":
                end = self._run(number, last)
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
                self._pieces.append(("", Tag("void", self._raw(number, end), number + 1)))
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
            self._remarks[FIELDS] += any(node.local == "t" for node in self._nodes[number:field_end])
            self._pieces.append(("", Tag("word", self._raw(number, field_end), number + 1)))
            return field_end
        style, index = "", number + 1
        while index < end:
            node, close = self._nodes[index], self._partner.get(index, index)
            if node.local == "rPr":
                style = _IDENTITY.sub("", self._raw(index, close))
            elif node.local == "t":
                text = "".join(node.text for node in self._nodes[index:close])
                self._pieces.append((style, text))
            elif node.local == "noBreakHyphen":
                self._pieces.append((style, "\u2011"))
            elif node.local not in _DROPPED and node.kind in ("open", "empty"):
                raw = f"<{self._prefix}r>{style}{self._raw(index, close)}</{self._prefix}r>"
                self._pieces.append((style, Tag("void", raw, index + 1, ends_sentence=node.local in _ENDS)))
            index = close + 1
        return end

    def _field_end(self, number: int, last: int) -> int | None:
        """Return the last node of a field that begins in this run, or None where none does."""
        depth = 0
        for index in range(number, last):
            node = self._nodes[index]
            if node.local == "fldChar" and node.kind in ("open", "empty"):
                kind = next((value for name, value in node.attributes.items() if name.endswith("fldCharType")), "")
                depth += {"begin": 1, "end": -1}.get(kind, 0)
                if depth == 0:
                    return next((close for close in range(index, last) if self._is_close_of_run(close)), last - 1)
            elif depth == 0 and self._is_close_of_run(index):
                return None
        return last - 1 if depth else None

    def _is_close_of_run(self, number: int) -> bool:
        return self._nodes[number].local == "r" and self._nodes[number].kind == "close"

    def _raw(self, start: int, end: int) -> str:
        return "".join(node.raw for node in self._nodes[start : end + 1])


def _edits(start: int, end: int, base: str, prefix: str) -> Callable[[Content], Iterable[Edit]]:
    def edits(translation: Content) -> Iterable[Edit]:
        parts: list[str] = []
        styles = [base]
        for item in translation:
            if isinstance(item, Tag) and item.markup.startswith(_RUN):
                styles = [*styles, item.markup[len(_RUN) :]] if item.kind == "open" else styles[:-1]
            elif isinstance(item, Tag) and not item.is_text:
                parts.append(item.markup)
            else:
                text = escaped(item if isinstance(item, str) else item.markup)
                parts.append(f'<{prefix}r>{styles[-1]}<{prefix}t xml:space="preserve">{text}</{prefix}t></{prefix}r>')
        yield Edit(start, end, "".join(parts))

    return edits
