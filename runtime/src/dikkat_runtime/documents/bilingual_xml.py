"""Read the XML of XLIFF and TMX: inline elements as tags of a segment, and elements of files of any size in turn."""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dikkat_runtime.documents.decoded_file import byte_order_mark
from dikkat_runtime.documents.segments import Content, Edit, Edits, Item, Kind, Tag, render
from dikkat_runtime.documents.xml_nodes import (
    CONTROLS,
    ILLEGAL,
    Node,
    declared_charset,
    escaped,
    matching,
    parse,
    quoted,
    text_items,
    xml_parser,
)
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.text_files import require_charset

_PAIRED = frozenset(("g", "pc", "mrk", "hi"))
_OPENING, _CLOSING = frozenset(("bpt", "sc", "bx")), frozenset(("ept", "ec", "ex"))
_BREAKS = frozenset(("lb", "pb", "x-br", "x-html-br", "fmt"))


@dataclass
class Elements:
    """The nodes of a file, or of an element, with the number of its closing tag for that of each opening one."""

    nodes: list[Node]
    partner: dict[int, int]

    def children(self, parent: int) -> Iterator[int]:
        """Yield the numbers of the elements right inside another."""
        number = parent + 1
        while number < self.partner[parent]:
            if number in self.partner:
                yield number
                number = self.partner[number]
            number += 1

    def child(self, parent: int, name: str) -> int | None:
        """Return the first element of that name right inside another."""
        return next((number for number in self.children(parent) if self.nodes[number].local == name), None)

    def content(self, element: int | None) -> Content:
        """Return text and tags inside an element; nothing without one."""
        return () if element is None else inline_content(self.nodes[element + 1 : self.partner[element]])

    def replacing(self, element: int, states: str = "") -> Edits:
        """Return the edits that write a translation into an element, which gets the attributes of `states`."""
        opening, closing = self.nodes[element], self.nodes[self.partner[element]]
        head = with_states(opening.raw, states)

        def edits(translation: Content) -> Iterable[Edit]:
            written = render(translation, escaped)
            if opening.kind == "empty":
                yield Edit(opening.start, opening.end, f"{head}{written}</{opening.name}>")
                return
            if states:
                yield Edit(opening.start, opening.end, head)
            yield Edit(opening.end, closing.start, written)

        return edits


def with_states(tag: str, states: str) -> str:
    """Return an opening tag with attributes, replacing those of the same names."""
    for name in re.findall(r"\s([\w-]+)=", states):
        tag = re.sub(rf"""(?<!\s)\s++{name}\s*=\s*(?:"[^"]*"|'[^']*')""", "", tag)
    return tag.removesuffix(">").removesuffix("/").rstrip() + states + ">"


def inline_content(row: list[Node]) -> Content:
    """Return text and tags of the nodes in a source. The halves of a pair may be separate elements (`bpt`, `sc`)."""
    if all(node.kind in ("text", "cdata") for node in row):
        return tuple(item for node in row for item in _texts(node))
    partner = matching(row)
    openings = {close: opening for opening, close in partner.items()}
    halves = _halves(row)
    ends = {row[n].attributes.get("startRef", ""): close for n, close in partner.items() if row[n].local == "em"}
    items: list[Item] = []
    number = 0
    while number < len(row):
        node = row[number]
        end = partner.get(number, number)
        protected = ends.get(node.attributes.get("id", ""), 0) if node.local == "sm" and _is_protected(node) else 0
        if protected > number:
            items.append(Tag("word", _raw(row, number, protected), number + 1))
            number = protected
        elif node.kind in ("text", "cdata"):
            items += _texts(node)
        elif number in halves and not _is_protected(node):
            kind, pair = halves[number]
            items.append(Tag(kind, _raw(row, number, end), pair))
            number = end
        elif node.local in _PAIRED and node.kind == "open" and not _is_protected(node):
            items.append(Tag("open", node.raw, number + 1))
        elif node.kind == "close":
            items.append(Tag("close", node.raw, openings[number] + 1))
        elif node.kind in ("open", "empty"):
            items.append(_alone(row, number, end))
            number = end
        else:
            items.append(Tag("void", node.raw))
        number += 1
    return tuple(items)


def _is_protected(node: Node) -> bool:
    """Return whether an annotation says that its text is not to be translated."""
    return node.attributes.get("translate") == "no" or node.attributes.get("mtype") == "protected"


def _texts(node: Node) -> list[Item]:
    return text_items(node.raw) if node.kind == "text" else [node.text]


def _halves(row: list[Node]) -> dict[int, tuple[Kind, int]]:
    """Return the elements that open or close a pair by themselves, properly nested; others stand alone."""
    halves: dict[int, tuple[Kind, int]] = {}
    opened: list[tuple[str, int]] = []
    # how many of each identity are open and cross no other pair
    counts = Counter[str]()
    for number, node in enumerate(row):
        if node.kind not in ("open", "empty"):
            continue
        if node.local in _OPENING:
            identity = node.attributes.get("rid") or node.attributes.get("id") or node.attributes.get("i", "")
            opened.append((identity, number))
            counts[identity] += 1
        elif node.local in _CLOSING:
            wanted = [node.attributes[key] for key in ("startRef", "rid", "id", "i") if key in node.attributes]
            while opened and not counts[opened[-1][0]]:
                opened.pop()
            if opened and opened[-1][0] in wanted:
                identity, opening = opened.pop()
                counts[identity] -= 1
                halves[opening], halves[number] = ("open", opening + 1), ("close", opening + 1)
            else:
                # crosses another pair: neither can be nested
                for identity in wanted:
                    counts[identity] = 0
    return halves


def _alone(row: list[Node], number: int, end: int) -> Tag:
    """Return an element that stands alone: a break, formatting, or a placeholder of a word."""
    node = row[number]
    shown = node.attributes.get("equiv-text") or node.attributes.get("equiv") or node.attributes.get("disp") or ""
    shown = shown or "".join(inner.text for inner in row[number:end])
    kind = node.attributes.get("ctype") or node.attributes.get("subType", "")
    ends = kind.rpartition(":")[2] in _BREAKS or bool(re.match(r"<(?:br|hr|p|div)\b", shown))
    is_word = bool(shown) and not shown.startswith("<") and not ends
    return Tag("word" if is_word else "void", _raw(row, number, end), number + 1, ends_sentence=ends)


def _raw(row: list[Node], start: int, end: int) -> str:
    return "".join(node.raw for node in row[start : end + 1])


# Elements of XML are streamed one at a time, in constant memory however large the file is.

_CHUNK = 1 << 16
_HEAD = 1000
_OPEN_REFERENCE = re.compile(r"&[^;&<]{0,12}\Z")
"""A reference that may continue in the next chunk."""
MAX_ELEMENT = 1_000_000
"""Characters of text and tags in one element; no segment is longer, and memory stays bounded."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element with all that is in it; of one that is only announced, its opening tag alone."""

    line: int
    nodes: list[Node]

    @property
    def opening(self) -> Node:
        return self.nodes[0]


def stream_elements(
    file: BinaryIO, name: str, wanted: frozenset[str], announced: frozenset[str], remarks: Counter[str]
) -> Iterator[Element]:
    """Yield the elements named in `wanted`, and the opening tags of those in `announced`, in their order.

    Illegal control characters are counted among the `remarks`. Raises `DataError` with the line for a file that is not
    well-formed, is not of its charset, or declares an entity.
    """
    collector = _Collector(name, wanted, announced)
    for text, is_last in _decoded_pieces(file, name):
        clean, count = ILLEGAL.subn("\ufffd", text)
        if count:
            remarks[CONTROLS] += count
        collector.feed(clean, is_last)
        yield from collector.elements
        collector.elements.clear()


def _decoded_pieces(file: BinaryIO, name: str) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a file piece by piece, no reference cut in two."""
    chunk = file.read(_CHUNK)
    mark, marked = byte_order_mark(chunk)
    charset = marked or require_charset(declared_charset(chunk[:_HEAD]) or "utf-8", name)
    decoder = codecs.getincrementaldecoder(charset)()
    position, rest, chunk = len(mark), "", chunk[len(mark) :]
    while True:
        following = file.read(_CHUNK)
        try:
            text = rest + decoder.decode(chunk, not following)
        except UnicodeError as error:
            # a missing byte-order mark is an error without a position
            start = position + getattr(error, "start", 0)
            raise DataError("{name}: byte {start:,} is not valid {charset}; convert the file with iconv").fill(
                name, start, charset.upper()
            ) from None
        if not following:
            yield text, True
            return
        cut = _OPEN_REFERENCE.search(text, max(0, len(text) - 14))
        rest = text[cut.start() :] if cut else ""
        yield text[: len(text) - len(rest)], False
        position += len(chunk)
        chunk = following


class _Collector:
    """A collector of elements from a file in pieces."""

    def __init__(self, name: str, wanted: frozenset[str], announced: frozenset[str]) -> None:
        self.elements: list[Element] = []
        self._name, self._wanted, self._announced = name, wanted, announced
        self._nodes: list[Node] = []
        self._depth = self._line = self._size = self._fed = 0
        self._parser = xml_parser(name)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def feed(self, text: str, is_last: bool) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self._fed += len(data)
        parse(self._parser, self._name, data, is_last=is_last)
        if not is_last and self._fed - self._parser.CurrentByteIndex > MAX_ELEMENT:
            # expat reads an unfinished tag again with each piece
            line = self._parser.CurrentLineNumber
            raise DataError(
                "{name}:{line}: a tag or comment of more than {max_length:,} bytes", self._name, line, MAX_ELEMENT
            )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if not self._depth:
            self._line = self._parser.CurrentLineNumber
            if local in self._announced:
                self.elements.append(Element(self._line, [_opening(name, attributes)]))
            if local not in self._wanted:
                return
            self._nodes, self._size = [], 0
        self._add(_opening(name, attributes))
        self._depth += 1

    def _end(self, name: str) -> None:
        if not self._depth:
            return
        self._add(Node("close", 0, 0, f"</{name}>", name))
        self._depth -= 1
        if not self._depth:
            self.elements.append(Element(self._line, self._nodes))

    def _characters(self, text: str) -> None:
        if self._depth:
            self._add(Node("cdata", 0, 0, f"<![CDATA[{text}]]>"))

    def _add(self, node: Node) -> None:
        self._size += len(node.text or node.raw)
        if self._size > MAX_ELEMENT:
            raise DataError(
                "{name}:{line}: a segment of more than {max_length:,} characters", self._name, self._line, MAX_ELEMENT
            )
        self._nodes.append(node)


def _opening(name: str, attributes: dict[str, str]) -> Node:
    written = "".join([f' {key}="{quoted(value)}"' for key, value in attributes.items()]) if attributes else ""
    node = Node("open", 0, 0, f"<{name}{written}>", name)
    node.__dict__["attributes"] = attributes  # expat has read them already
    return node
