"""Read inline elements of XLIFF and TMX as tags of a segment."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dikkat_runtime.documents.segments import Content, Edit, Item, Kind, Tag, render
from dikkat_runtime.documents.xml_nodes import Node, escaped, matching, text_items

Edits = Callable[[Content], Iterable[Edit]]
"""Returns the edits that write a translation."""
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

    def replacing(self, element: int) -> Edits:
        """Return the edits that write a translation into an element."""
        opening, closing = self.nodes[element], self.nodes[self.partner[element]]

        def edits(translation: Content) -> Iterable[Edit]:
            written = render(translation, escaped)
            if opening.kind == "empty":
                head = opening.raw.removesuffix("/>").rstrip() + ">"
                yield Edit(opening.start, opening.end, f"{head}{written}</{opening.name}>")
            else:
                yield Edit(opening.end, closing.start, written)

        return edits


def inline_content(nodes: Iterable[Node]) -> Content:
    """Return text and tags of the nodes inside a source.

    The two halves of a pair may be separate elements (`bpt`, `sc`).
    """
    row = list(nodes)
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
