"""Split HTML into a row of nodes with their positions in the file; no tree is built, so that only texts change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dikkat_runtime.documents.markup_ends import TagEnds

RAW = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"))
"""Elements whose content holds no tags."""
_VOID = "area base br col embed hr img input link meta param source track wbr basefont frame"
VOID = frozenset(_VOID.split())
_INLINE = """
    a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math nobr q rp rt ruby s
    samp small span strike strong sub sup svg time tt u var wbr input button select meter output progress object
"""
INLINE = frozenset(_INLINE.split())
"""Elements that stand inside a sentence; all others end one."""
_COPIED = "code kbd samp var math svg select object pre script style textarea"
COPIED = frozenset(_COPIED.split())
"""Elements whose content is no language."""
_NODE = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*>|</[^A-Za-z>][^>]*>"
    r"|</(?P<close>[A-Za-z][^\s/>]*+)[^>]*+>"
    r"|<(?P<open>[A-Za-z][^\s/<>]*+)"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL,
)
_TAG_BEGINS = re.compile("<[A-Za-z/!?]")
_ATTRIBUTE = re.compile(
    r"""(?<=[\s"'])(?P<name>[^\s=/>"']+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))"""
)
Kind = Literal["open", "close", "text", "raw", "copied", "other"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name in small letters, its raw value, and its position."""

    name: str
    raw: str
    start: int
    end: int
    quote: str
    """The quotation mark around it, or nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """A tag, a text or another node; characters `start` to `end` of the file."""

    kind: Kind
    start: int
    raw: str
    name: str = ""
    """In small letters."""

    @property
    def end(self) -> int:
        """The position behind its last character."""
        return self.start + len(self.raw)

    @property
    def is_void(self) -> bool:
        """True if it has no closing tag."""
        return self.name in VOID or self.raw.endswith("/>")

    def attributes(self) -> list[Attribute]:
        """Return all attributes that have a value."""
        result = []
        tag = _NODE.match(self.raw)
        end = TagEnds(self.raw).find(tag.end()) if tag and tag["open"] else 0
        for match in _ATTRIBUTE.finditer(self.raw, 0, end):
            part = next(group for group in ("double", "single", "bare") if match[group] is not None)
            start, end = (self.start + offset for offset in match.span(part))
            quote = {"double": '"', "single": "'"}.get(part, "")
            result.append(Attribute(match["name"].lower(), match[part], start, end, quote))
        return result

    def attribute(self, name: str) -> str | None:
        """Return the raw value of one attribute, or None."""
        return next((entry.raw for entry in self.attributes() if entry.name == name), None)


def _unclosed(text: str, position: int) -> Iterator[Node]:
    """Split the rest behind the last closed tag into text and a tag that is never closed."""
    begins = _TAG_BEGINS.search(text, position)
    end = begins.start() if begins else len(text)
    if end > position:
        yield Node("text", position, text[position:end])
    if begins:
        yield Node("other", end, text[end:])


def html_nodes(text: str) -> Iterator[Node]:
    """Yield the nodes of a page, in order; every character is in exactly one of them."""
    position, last, ends = 0, text.rfind(">"), TagEnds(text)
    while position < len(text):
        if position > last and not text.startswith("<!--", position):
            # no tag is closed any more: the search for each would run to the end
            yield from _unclosed(text, position)
            return
        match = _NODE.match(text, position)
        end = ends.find(match.end()) if match and match["open"] else match.end() if match else -1
        if match is None or end < 0 or (_TAG_BEGINS.match(text, position) and match["text"]):
            # a tag that is never closed: browsers show nothing of it
            end = text.find(">", position) + 1 or len(text)
            yield Node("other", position, text[position:end])
            position = end
            continue
        name = (match["open"] or match["close"] or "").lower()
        kind: Kind = "text" if match["text"] else "open" if match["open"] else "close" if match["close"] else "other"
        raw, position = text[position:end], end
        yield Node(kind, end - len(raw), raw, name)
        if kind == "open" and name in RAW and not raw.endswith("/>"):
            close = re.compile(rf"</{re.escape(name)}(?=[\s/>])", re.IGNORECASE).search(text, position)
            end = close.start() if close else len(text)
            if end > position:
                yield Node("raw" if close else "other", position, text[position:end], name)
            position = end


def closing_tags(nodes: Sequence[Node]) -> dict[int, int]:
    """Return for the number of each opening tag that of its closing tag, whatever other elements cross it."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        if node.kind == "open" and not node.is_void:
            opened.setdefault(node.name, []).append(number)
        elif node.kind == "close" and opened.get(node.name):
            ends[opened[node.name].pop()] = number
    return ends
