"""HTML as a row of nodes with their places in the file: no tree is built, so that nothing outside the texts changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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
    r"""|<(?P<open>[A-Za-z][^\s/<>]*+)(?:"[^"]*+"|'[^']*+'|[^"'<>])*+>"""
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
    """One attribute: its name in small letters, what stands in the file, and where."""

    name: str
    raw: str
    start: int
    end: int
    quote: str
    """The quotation mark around it, or nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """A tag, a text or what is neither; characters `start` to `end` of the file."""

    kind: Kind
    start: int
    raw: str
    name: str = ""
    """In small letters."""

    @property
    def end(self) -> int:
        """Behind its last character."""
        return self.start + len(self.raw)

    @property
    def is_void(self) -> bool:
        """Whether it has no closing tag."""
        return self.name in VOID or self.raw.endswith("/>")

    def attributes(self) -> list[Attribute]:
        """All attributes that have a value."""
        found = []
        tag = _NODE.match(self.raw)
        for match in _ATTRIBUTE.finditer(tag[0] if tag else ""):
            part = next(each for each in ("double", "single", "bare") if match[each] is not None)
            start, end = (self.start + place for place in match.span(part))
            quote = {"double": '"', "single": "'"}.get(part, "")
            found.append(Attribute(match["name"].lower(), match[part], start, end, quote))
        return found

    def attribute(self, name: str) -> str | None:
        """The raw value of one attribute, or None."""
        return next((each.raw for each in self.attributes() if each.name == name), None)


def _unclosed(text: str, position: int) -> Iterator[Node]:
    """Split what stands behind the last closed tag into text and a tag that is never closed."""
    begins = _TAG_BEGINS.search(text, position)
    end = begins.start() if begins else len(text)
    if end > position:
        yield Node("text", position, text[position:end])
    if begins:
        yield Node("other", end, text[end:])


def html_nodes(text: str) -> Iterator[Node]:
    """The nodes of a page, in order; every character is in exactly one of them."""
    position, last = 0, text.rfind(">")
    while position < len(text):
        if position > last and not text.startswith("<!--", position):
            # no tag is closed any more: each would be looked for to the end
            yield from _unclosed(text, position)
            return
        found = _NODE.match(text, position)
        if found is None or (_TAG_BEGINS.match(text, position) and found["text"]):
            # a tag that is never closed: browsers show nothing of it
            end = text.find(">", position) + 1 or len(text)
            yield Node("other", position, text[position:end])
            position = end
            continue
        name = (found["open"] or found["close"] or "").lower()
        kind: Kind = "text" if found["text"] else "open" if found["open"] else "close" if found["close"] else "other"
        yield Node(kind, position, found[0], name)
        position = found.end()
        if kind == "open" and name in RAW and not found[0].endswith("/>"):
            close = re.compile(rf"</{re.escape(name)}(?=[\s/>])", re.IGNORECASE).search(text, position)
            end = close.start() if close else len(text)
            if end > position:
                yield Node("raw" if close else "other", position, text[position:end], name)
            position = end


def closing_tags(nodes: Sequence[Node]) -> dict[int, int]:
    """For the number of each opening tag that of the tag which closes it, whatever other elements cross it."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        if node.kind == "open" and not node.is_void:
            opened.setdefault(node.name, []).append(number)
        elif node.kind == "close" and opened.get(node.name):
            ends[opened[node.name].pop()] = number
    return ends
