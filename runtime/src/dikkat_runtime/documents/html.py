"""Read HTML pages: texts and visible attributes; scripts, styles, code and elements of `translate="no"` stay."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.markup_ends import TagEnds, nested_pairs
from dikkat_runtime.documents.segments import Content, Edit, Item, Options, Segment, Tag, is_language, plain, render
from dikkat_runtime.errors import msg
from dikkat_runtime.text.placeholders import has_words

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
"""Elements whose content is not language."""
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
        """The position after its last character."""
        return self.start + len(self.raw)

    @property
    def is_void(self) -> bool:
        """True if it has no closing tag."""
        return self.name in VOID or self.raw.endswith("/>")

    def attributes(self) -> list[Attribute]:
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
    """Split the rest after the last closed tag into text and a tag that is never closed."""
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


_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_READ = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description", "label", "summary", "abbr"))
"""Attributes that people read."""
_DESCRIPTIONS = frozenset(("description", "keywords", "title", "site_name"))
_CODE = frozenset(("code", "kbd", "samp", "var", "pre"))
_CHOICES = frozenset(("option", "optgroup"))
FOREIGN = msg("elements in another language than the model reads, left as they are")
MARKED = msg("elements that are not to be translated")
CODE = msg("elements of code, left as they are")
_UNSEEN = ("<!--", "<?")
"""Beginnings of comments, also of those that a page writes as processing instructions."""
_LEFTWARD = frozenset(("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ps", "sd", "ug", "ur", "yi"))
_LANGUAGE = frozenset(("lang", "xml:lang"))
_SCRIPTS = frozenset(("sub", "sup"))
"""Elements that go on with the word before them."""
_NESTED = 8
"""Elements that begin with one text at most, as far as is looked."""
_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")


def read_html(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the texts of a page: of each block, of attributes, of its title."""
    declared = _CHARSET.search(data[:4096])
    file = DecodedFile.decode(
        data, name, declared[1].decode("ascii") if declared else None, language=options.source_language
    )
    return page_document(file, options)


def page_document(file: DecodedFile, options: Options) -> TextDocument:
    page = _Page(file)
    nodes = list(html_nodes(file.text))
    ends, number = closing_tags(nodes), 0
    languages = [(len(nodes), True)]
    while number < len(nodes):
        node, close = nodes[number], ends.get(number)
        while languages[-1][0] < number:
            languages.pop()
        stated = node.attribute("lang") or node.attribute("xml:lang") if node.kind == "open" else None
        if stated and not node.is_void:
            is_read = is_language(stated, options.source_language)
            page.remarks[FOREIGN] += languages[-1][1] and not is_read
            languages.append((min(close or len(nodes), languages[-1][0]), is_read))
        if close is None and node.kind == "open" and not node.is_void and _is_marked(node):
            close = _implied_end(nodes, number)
        is_marked = close is not None and (node.name in options.ignored_elements or _is_marked(node))
        if close is None or not (is_marked or node.name in COPIED):
            if _begins_another_text(nodes, number):
                page.end_text()
            page.read(node, languages[-1][1])
            number += 1
            continue
        raw = "".join(other.raw for other in nodes[number : close + 1])
        page.read(Node("copied", node.start, raw, node.name), languages[-1][1])
        page.remarks[MARKED] += is_marked
        page.remarks[CODE] += not is_marked and node.name in _CODE
        if not is_marked and languages[-1][1]:
            page.read_inside(node, nodes[number + 1 : close])
        number = close + 1
    page.flush()
    language = _language_edits(nodes, options)
    return TextDocument(file, page.segments, page.remarks, language, markup=False, errors="xmlcharrefreplace")


def _implied_end(nodes: Sequence[Node], number: int) -> int:
    """Return the last node of an element without a closing tag, which ends before the next block."""
    following = (index for index in range(number + 1, len(nodes)) if nodes[index].kind in ("open", "close"))
    return next((index for index in following if nodes[index].name not in INLINE), len(nodes)) - 1


def _begins_another_text(nodes: Sequence[Node], number: int) -> bool:
    """Tell whether an element begins with a word where another one ends, as in menus without spaces between links."""
    node, before = nodes[number], nodes[number - 1] if number else None
    if node.kind != "open" or node.is_void or before is None or before.kind != "close" or before.end != node.start:
        return False
    is_script = node.name in _SCRIPTS or before.name in _SCRIPTS
    after = next((other for other in nodes[number + 1 : number + _NESTED] if other.kind != "open"), None)
    return not is_script and after is not None and after.kind == "text" and after.raw[:1].isalnum()


class _Page:
    """A collector of the nodes of a block until it ends."""

    def __init__(self, file: DecodedFile) -> None:
        self.segments: list[Segment] = []
        self.remarks: Counter[str] = Counter()
        self._file = file
        self._block: list[Node] = []
        self._depth = 0
        """Elements of the block that are not closed yet."""
        self._last_text = ""

    def read(self, node: Node, is_read: bool) -> None:
        """Read the next node, which stands in the language that the model reads or in another one."""
        if not is_read and node.kind in ("text", "raw"):
            node = replace(node, kind="copied")
        elif is_read and node.kind in ("open", "copied"):
            self._attributes(node)
        if node.kind == "raw" and node.name == "title":
            self.flush()
            self._add((unescaped(node.raw),), node.start, node.end, escaper(node.raw))
        elif (node.name not in INLINE) if node.name else (node.kind == "other" and not node.raw.startswith(_UNSEEN)):
            self.flush()
        else:
            self._block.append(node)
            self._last_text = node.raw if node.kind == "text" else self._last_text
            self._depth += (node.kind == "open" and not node.is_void) - (node.kind == "close")

    def end_text(self) -> None:
        """End the text, unless it is inside an element or its last word goes on."""
        if self._depth == 0 and self._last_text[-1:].isalnum():
            self.flush()

    def read_inside(self, owner: Node, nodes: Sequence[Node]) -> None:
        """Read the choices of a list and the texts of a drawing, an element that stands in a text as one word."""
        ends, until = closing_tags(nodes), 0
        for number, node in enumerate(nodes):
            if node.kind != "open" or owner.name not in ("select", "svg") or node.start < until:
                continue
            self._attributes(node)
            if node.name not in ("option", "text", "title", "desc"):
                continue
            others = (index for index in range(number + 1, len(nodes)) if nodes[index].name in _CHOICES)
            inner = nodes[number + 1 : ends[number] if number in ends else next(others, len(nodes))]
            if inner and not _is_marked(node):
                until = inner[-1].end
                content = _content([replace(node, kind="text") if node.kind == "raw" else node for node in inner])
                self._add(content, inner[0].start, until, escaper(self._file.text[inner[0].start : until]))

    def flush(self) -> None:
        block, self._block = self._block, []
        self._depth, self._last_text = 0, ""
        ends, start = closing_tags(block), 0
        # tags before the first text stay outside, unless they are closed within
        while start < len(block) and block[start].kind != "text" and start not in ends:
            start += 1
        block = block[start:]
        if block:
            first, last = block[0].start, block[-1].end
            self._add(_content(block), first, last, escaper(self._file.text[first:last]))

    def _attributes(self, node: Node) -> None:
        """Read the attributes of a node that people see."""
        attributes = [] if _is_marked(node) else node.attributes()
        values = {attribute.name: attribute.raw.lower() for attribute in reversed(attributes)}
        described = (values.get("name") or values.get("property", "")).rpartition(":")[2]
        for attribute in attributes:
            where = node.name, attribute.name
            is_button = where == ("input", "value") and values.get("type") in ("submit", "button", "reset")
            is_description = where == ("meta", "content") and described in _DESCRIPTIONS
            if attribute.name in _READ or is_button or is_description:
                escape = _attribute_escaper(attribute.quote)
                self._add((unescaped(attribute.raw),), attribute.start, attribute.end, escape)

    def _add(self, content: Content, start: int, end: int, escape: Callable[[str], str]) -> None:
        if has_words(plain(content)):
            self.segments.append(self._file.segment(start, end, content, partial(render, escape=escape)))


def _content(block: list[Node]) -> Content:
    """Return text and tags; tags that are not closed or cross another element stand alone."""
    partner = nested_pairs(
        (number, node.name, node.kind == "open")
        for number, node in enumerate(block)
        if node.kind == "close" or (node.kind == "open" and not node.is_void)
    )
    closes = {close: opening for opening, close in partner.items()}
    items: list[Item] = []
    for number, node in enumerate(block):
        if node.kind == "text":
            items.append(unescaped(node.raw))
        elif node.kind == "copied":
            items.append(Tag("word", node.raw, node.start + 1, start=node.start))
        elif number in partner:
            items.append(Tag("open", node.raw, node.start + 1, start=node.start))
        elif number in closes:
            items.append(Tag("close", node.raw, block[closes[number]].start + 1))
        else:
            items.append(Tag("void", node.raw, node.start + 1, node.name == "br", start=node.start))
    return tuple(items)


def _is_marked(node: Node) -> bool:
    """Return whether its author wants an element to stay."""
    return node.attribute("translate") == "no" or "notranslate" in (node.attribute("class") or "").split()


def unescaped(text: str) -> str:
    """Return text with its references resolved; one without a semicolon is text."""
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), text)


def escaper(source: str) -> Callable[[str], str]:
    """Return a function that escapes text with the same references for the same characters as the source has."""
    named: dict[str, str] = {}
    for reference in _REFERENCE.findall(source):
        character = html.unescape(reference)
        if len(character) == 1:
            named.setdefault(character, reference)

    # a bare & is allowed where it is not a reference, and stays one where the source has it
    named["&"] = "&amp;" if "&amp;" in source or "&" not in source else "&"
    named.setdefault("<", "&lt;")
    has_bare = re.search(r"<(?![A-Za-z/!?])", source) is not None
    begins, less_than = re.compile("<(?=[A-Za-z/!?])" if has_bare else "<"), named.pop("<")
    # unlike a class of a pattern, a table takes no longer for more characters
    table = str.maketrans(named)
    return lambda text: less_than.join(part.translate(table) for part in begins.split(text))


def _attribute_escaper(quote: str) -> Callable[[str], str]:
    reference = "&#39;" if quote == "'" else "&quot;"
    edge = "" if quote else '"'
    quote = quote or '"'
    return lambda text: edge + text.replace("&", "&amp;").replace(quote, reference) + edge


def _language_edits(nodes: list[Node], options: Options) -> list[Edit]:
    """Return the change of the declared language of a page, where it is the source language of the model."""
    root = next((node for node in nodes if node.kind == "open" and node.name == "html"), None)
    if root is None or not options.target_language:
        return []
    code = options.target_language.replace("_", "-")
    attributes = {attribute.name: attribute for attribute in reversed(root.attributes())}
    stated = [attribute for name, attribute in attributes.items() if name in _LANGUAGE]
    if not stated or not all(is_language(attribute.raw, options.source_language) for attribute in stated):
        return []
    edits = [Edit(attribute.start, attribute.end, code) for attribute in stated]
    directions = [_is_leftward(attribute.raw) for attribute in stated], _is_leftward(code)
    if any(directions[0]) != directions[1]:
        new = "rtl" if directions[1] else "ltr"
        if "dir" in attributes:
            edits.append(Edit(attributes["dir"].start, attributes["dir"].end, new))
        else:
            position = root.start + len("<html")
            edits.append(Edit(position, position, f' dir="{new}"'))
    return edits


def _is_leftward(language: str) -> bool:
    """Return whether a language is written from right to left."""
    return language.lower().replace("_", "-").partition("-")[0] in _LEFTWARD
