"""Stream elements of XML, one at a time, in constant memory however large the file is.

Nothing outside the file is fetched, and a file that declares entities is refused.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dikkat_runtime.documents.decoded_file import byte_order_mark
from dikkat_runtime.documents.xml_nodes import CONTROLS, ILLEGAL, Node, declared_charset, parse, quoted, xml_parser
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.text_files import require_charset

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
        """The opening tag."""
        return self.nodes[0]


def stream_elements(
    file: BinaryIO, name: str, wanted: frozenset[str], announced: frozenset[str], remarks: Counter[str]
) -> Iterator[Element]:
    """Yield the elements named in `wanted`, and the opening tags of those in `announced`, in their order.

    Illegal control characters are counted among the `remarks`. Raises `DataError` with the line for a file that is not
    well-formed, is not of its charset, or declares an entity.
    """
    collector = _Collector(name, wanted, announced)
    for text, is_last in _texts(file, name):
        clean, count = ILLEGAL.subn("\ufffd", text)
        if count:
            remarks[CONTROLS] += count
        collector.feed(clean, is_last)
        yield from collector.elements
        collector.elements.clear()


def _texts(file: BinaryIO, name: str) -> Iterator[tuple[str, bool]]:
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
        """Read one more piece."""
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
