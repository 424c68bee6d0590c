"""Translate pieces of HTML and XML that clients send instead of plain text; only text changes, well-formed or not."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.html import page_document
from dikkat_runtime.documents.markup_ends import NextEnd, TagEnds
from dikkat_runtime.documents.segments import Edit, Item, Options, Segment, Tag, plain, render
from dikkat_runtime.documents.xml_nodes import DOCTYPE, escaper, text_items
from dikkat_runtime.text.placeholders import has_words

_NODE = re.compile(r"<(?P<open>[^\s<>/!?]++)|</(?P<close>[^\s<>/]++)[^<>]*+>|<![^<>]*+>")
_DOCTYPE = re.compile(DOCTYPE, re.DOTALL)
_ENDS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
_MAX_TAG_LENGTH = 10_000
"""Characters after which a tag that does not end is text."""
_NOT_TRANSLATED = re.compile(r"""\stranslate\s*=\s*["']no["']""")


@dataclass(frozen=True, slots=True)
class Structure:
    """The options of a client on the elements of an XML fragment; names as they are written there."""

    ignored: Collection[str] = ()
    """Elements that are not translated; each stands for a word."""
    splitting: Collection[str] = ()
    """Elements that end a sentence."""
    inside: Collection[str] = ()
    """Elements that never end a sentence."""
    detects: bool = True
    """True if an element that stands next to no text ends a sentence."""


def html_fragment(text: str, ignored: Collection[str] = ()) -> TextDocument:
    """Read the texts of a piece of HTML like those of a page; elements named `ignored` (in small letters) stay."""
    return page_document(DecodedFile("text", text), Options(ignored_elements=frozenset(ignored)))


def xml_fragment(text: str, structure: Structure) -> TextDocument:
    """Read the texts of a piece of XML; text that is not well-formed stands for itself."""
    nodes = list(_nodes(text))
    _match(nodes, structure.ignored)
    groups = groupby(nodes, lambda node: _ends_sentence(node, structure))
    texts = [_segment(list(block)) for is_end, block in groups if not is_end]
    segments = [segment for segment in texts if has_words(plain(segment.content))]
    return TextDocument(DecodedFile("text", text), segments, markup=False)


@dataclass(slots=True)
class _Node:
    """A tag, a text or another node, with its position in the fragment."""

    kind: Literal["open", "close", "empty", "text", "copied", "other"]
    start: int
    raw: str
    name: str = ""
    pair: int = 0
    """The number of both of a matching pair, from 1; 0 where the other one is missing."""
    parent: "_Node | None" = None
    has_text: bool = False
    """True if text stands directly in the element."""


def _nodes(text: str) -> Iterator[_Node]:
    """Yield all nodes; a `<` that begins no tag is text."""
    start = position = 0
    # one at most, which may be long
    type_at = text.find("<!DOCTYPE")
    tags, ends = TagEnds(text), {opening: NextEnd(text, closing) for opening, closing in _ENDS.items()}
    while (position := text.find("<", position)) >= 0:
        opening = next((beginning for beginning in _ENDS if text.startswith(beginning, position)), "")
        declared = _DOCTYPE.match(text, position) if position == type_at else None
        match = declared or _NODE.match(text, position)
        names = match.groupdict() if match else {}
        end = match.end() if match else -1
        if opening:
            end = ends[opening].find(position + len(opening))
        elif names.get("open"):
            end = tags.find(end)
        if end < 0 or (end - position > _MAX_TAG_LENGTH and not declared):
            position += 1
            continue
        if position > start:
            yield _Node("text", start, text[start:position])
        raw = text[position:end]
        if names.get("open"):
            kind: Literal["open", "empty"] = "empty" if raw.endswith("/>") else "open"
            yield _Node(kind, position, raw, names["open"])
        else:
            yield _Node("close" if names.get("close") else "other", position, raw, names.get("close") or "")
        start = position = end
    if start < len(text):
        yield _Node("text", start, text[start:])


def _match(nodes: list[_Node], ignored: Collection[str]) -> None:
    """Find pairs and nesting, and make each element that is not translated one node."""
    root = _Node("open", 0, "", pair=-1)
    opened, counts = [root], Counter[str]()
    for number, node in enumerate(nodes, start=1):
        node.parent = opened[-1]
        if node.kind == "open":
            opened.append(node)
            counts[node.name] += 1
        elif node.kind == "close" and counts[node.name]:
            while (last := opened.pop()).name != node.name:
                counts[last.name] -= 1
            counts[node.name] -= 1
            last.pair = node.pair = number
            node.parent = last.parent
    for node in nodes:
        if node.parent is not None and not node.parent.pair:
            # the content of an element that is never closed belongs to its parent
            node.parent = node.parent.parent
        if node.kind == "text" and node.raw.strip() and node.parent is not None:
            node.parent.has_text = True
    _merge_copied(nodes, ignored)


def _merge_copied(nodes: list[_Node], ignored: Collection[str]) -> None:
    kept: list[_Node] = []
    inside: _Node | None = None
    raw = list[str]()
    for node in nodes:
        if inside is not None:
            raw.append(node.raw)
            if node.pair == inside.pair:
                kept.append(replace(inside, kind="copied", raw="".join(raw)))
                inside = None
        elif node.kind == "open" and node.pair and (node.name in ignored or _NOT_TRANSLATED.search(node.raw)):
            inside, raw = node, [node.raw]
        elif node.kind == "empty" and node.name in ignored:
            kept.append(replace(node, kind="copied"))
        else:
            kept.append(node)
    nodes[:] = kept


def _ends_sentence(node: _Node, structure: Structure) -> bool:
    if node.kind == "text" or node.name in structure.inside:
        return False
    if node.name in structure.splitting:
        return True
    is_element = node.kind in ("open", "close", "empty")
    return structure.detects and is_element and node.parent is not None and not node.parent.has_text


def _segment(block: list[_Node]) -> Segment:
    """Return the segment of the nodes between two that end a sentence."""
    whole = {node.pair for node in block if node.kind == "open"} & {node.pair for node in block if node.kind == "close"}
    items: list[Item] = []
    for node in block:
        if node.kind == "text":
            items += text_items(node.raw)
        elif node.kind in ("open", "close") and node.pair and node.pair in whole:
            items.append(Tag("open" if node.kind == "open" else "close", node.raw, node.pair))
        else:
            items.append(Tag("word" if node.kind == "copied" else "void", node.raw))
    first, last = block[0].start, block[-1].start + len(block[-1].raw)
    escape = escaper("".join(node.raw for node in block if node.kind == "text"))
    return Segment(tuple(items), lambda translation: [Edit(first, last, render(translation, escape))], 1)
