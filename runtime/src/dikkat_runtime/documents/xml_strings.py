"""Read the texts of programs in XML: Android's `strings.xml` and Apple's `.stringsdict`.

Sources: Android developers, String resources; Apple, stringsdict file format.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from dikkat_runtime.documents.app_strings import app_content
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.icu import plural_categories
from dikkat_runtime.documents.segments import (
    Content,
    Edit,
    Item,
    Options,
    Segment,
    Tag,
    is_unchanged,
    joined,
    plain,
    render,
    stripped,
)
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, escaper, matching, text_items, xml_nodes
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

KEPT = msg('texts of translatable="false"')
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|\s+", re.DOTALL)
_REFERENCE = re.compile(r"[@?](?:[\w.]+:)?(?:\w+/)?[\w.]+")
_LETTERS = {"n": "\n", "t": "\t"}


def read_resources(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the strings, arrays and plurals of a program for Android. Raises `DataError` for XML of another kind."""
    reader = _Resources(decode_xml(data, name), options)
    reader.read()
    return TextDocument(reader.file, reader.segments, reader.remarks)


class _Resources:
    """A reader of `strings.xml`."""

    def __init__(self, file: DecodedFile, options: Options) -> None:
        self.file, self._language = file, options.target_language
        self.segments: list[Segment] = []
        self.remarks: Counter[str] = Counter()
        self._nodes = xml_nodes(file, self.remarks)
        self._partner = matching(self._nodes)
        self._missing: list[str] = []
        """The plural categories that the language of the translation needs and the plural lacks."""

    def read(self) -> None:
        """Read all elements that hold texts."""
        root = next((node for node in self._nodes if node.kind in ("open", "empty")), None)
        if root is None or root.name != "resources":
            raise DataError(
                "{name}: its root is <{root}>; of XML, strings.xml of Android is translated",
                self.file.name,
                root.name if root else "",
            )
        number, owner = 0, 0
        while number < len(self._nodes):
            node = self._nodes[number]
            if node.kind == "open" and node.name in ("string-array", "plurals", "array"):
                owner = number
                inside = self._nodes[number : self._partner[number]]
                stated = {other.attributes.get("quantity", "") for other in inside if other.name == "item"}
                wanted = plural_categories(self._language) if self._language else []
                self._missing = [name for name in wanted if name not in stated]
            elif owner and number >= self._partner[owner]:
                owner = 0
            if node.kind == "open" and node.attributes.get("translatable") == "false":
                number = self._partner[number]
                self.remarks[KEPT] += 1
                owner = 0
            elif node.kind == "open" and (node.name == "string" or (node.name == "item" and owner)):
                self._add(number, owner)
                number = self._partner[number]
            number += 1

    def _add(self, number: int, owner: int) -> None:
        """Add the text of an element; of a plural also the forms that the language of the translation needs."""
        close = self._partner[number]
        inside = self._nodes[number + 1 : close]
        # blanks around a text are not shown
        seen = [at for at, node in enumerate(inside) if node.kind != "text" or node.raw.strip()]
        inside = inside[seen[0] : seen[-1] + 1] if seen else []
        content = _content(inside)
        if not has_words(plain(content)) or _REFERENCE.fullmatch(plain(content)):
            return
        start, end = inside[0].start, inside[-1].end
        if inside[0].kind == "text":
            start += len(inside[0].raw) - len(inside[0].raw.lstrip())
        if inside[-1].kind == "text":
            end -= len(inside[-1].raw) - len(inside[-1].raw.rstrip())
        escape = escaper(self.file.text[start:end])
        is_data = inside[0].kind == "cdata"
        tag = self._nodes[number]
        missing = self._missing if owner and tag.attributes.get("quantity") == "other" else []
        margin = self._nodes[number - 1].raw if self._nodes[number - 1].kind == "text" else ""

        def edits(translation: Content) -> Iterable[Edit]:
            text = "".join(_written(item, escape, is_data=is_data) for item in translation)
            text = re.sub(r"\A(?=[@?])", r"\\", text)
            text = f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>" if is_data else text
            if not is_unchanged(translation, content):
                yield Edit(start, end, text)
            for category in missing:
                opening = re.sub(r"(quantity\s*=\s*[\"'])other", rf"\g<1>{category}", tag.raw)
                after = self._nodes[close].end
                yield Edit(after, after, f"{margin}{opening}{text}{self._nodes[close].raw}")

        self.segments.append(Segment(content, edits, self.file.line(start)))


def _content(nodes: list[Node]) -> Content:
    """Return text and tags; what `xliff:g` protects stands for a word."""
    partner = matching(nodes)
    openings = {close: opening for opening, close in partner.items()}
    items: list[Item] = []
    number = 0
    while number < len(nodes):
        node, end = nodes[number], partner.get(number, number)
        if node.kind in ("text", "cdata"):
            texts = text_items(node.raw) if node.kind == "text" else [node.text]
            for item in texts:
                items += app_content(_unescaped(item)) if isinstance(item, str) else [item]
        elif node.kind == "empty" or node.name == "xliff:g":
            raw = "".join(other.raw for other in nodes[number : end + 1])
            items.append(Tag("word" if node.local == "g" else "void", raw, node.start + 1, node.local == "br"))
            number = end
        elif node.kind in ("open", "close"):
            opening = nodes[openings.get(number, number)]
            items.append(Tag("open" if node.kind == "open" else "close", node.raw, opening.start + 1))
        else:
            items.append(Tag("void", node.raw, node.start + 1))
        number += 1
    return stripped(joined(items))


def _unescaped(text: str) -> str:
    """Return what Android shows of a text: white space is one space, escapes are resolved."""
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2]) if match[2] else " ",
        text,
    )


def _written(item: Item, escape: Callable[[str], str], *, is_data: bool) -> str:
    if isinstance(item, Tag) and not item.is_text:
        return item.markup
    text = item if isinstance(item, str) else item.markup
    for character, written in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("'", "\\'")):
        text = text.replace(character, written)
    # quotation marks are of the markup in a tag of HTML
    is_tag = isinstance(item, Tag) and item.markup.startswith("<")
    text = text if is_tag else text.replace('"', '\\"')
    return text if is_data else escape(text)


_FORMS = frozenset(("zero", "one", "two", "few", "many", "other", "NSStringLocalizedFormatKey"))


def read_stringsdict(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the plural forms of a program of Apple. Raises `DataError` for no property list."""
    file = decode_xml(data, name)
    remarks: Counter[str] = Counter()
    nodes = [node for node in xml_nodes(file, remarks) if node.kind != "text" or node.raw.strip()]
    if not any(node.kind == "open" and node.name == "plist" for node in nodes):
        raise DataError("{name}: not a property list: it has no <plist>", name)
    segments: list[Segment] = []
    stated = [set[str]()]
    for at, node in enumerate(nodes):
        if node.name == "dict" and node.kind == "open":
            stated.append(set())
        elif node.name == "dict" and node.kind == "close":
            stated.pop()
        elif node.name == "key" and node.kind == "open" and len(nodes) > at + 5:
            key, string = nodes[at + 1].text, nodes[at + 3 : at + 6]
            stated[-1].add(key)
            content = app_content(string[1].text)
            is_text = string[0].name == "string" and string[1].kind == "text" and has_words(plain(content))
            if key in _FORMS and is_text:
                edits = _form_edits(file.text, node, string, content, options.target_language, stated[-1])
                segments.append(Segment(content, edits, file.line(node.start)))
    return TextDocument(file, segments, remarks)


def _form_edits(
    text: str, key: Node, string: list[Node], content: Content, language: str, stated: set[str]
) -> Callable[[Content], Iterable[Edit]]:
    """Return the edits of a plural form; after that of `other` stand those that the language needs and nobody gave."""
    _, old, closing = string
    between = text[key.start : old.start]
    margin = text[text.rfind("\n", 0, key.start) : key.start]

    def edits(translation: Content) -> Iterable[Edit]:
        written = render(translation, escaped)
        if not is_unchanged(translation, content):
            yield Edit(old.start, old.end, written)
        wanted = plural_categories(language) if language and ">other<" in between and "one" in stated else []
        for category in (name for name in wanted if name not in stated):
            copy = between.replace(">other<", f">{category}<")
            yield Edit(closing.end, closing.end, f"{margin if not margin.strip() else ''}{copy}{written}{closing.raw}")

    return edits
