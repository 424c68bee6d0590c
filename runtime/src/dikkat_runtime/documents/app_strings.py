"""Read the texts of programs: a value of a key is a text, and what the program puts into it stays.

Here the readers of Java, Apple and Android; those of JSON and YAML share their rules.
Sources: java.util.Properties and java.text.MessageFormat (Java SE 21); Apple, Resource Programming Guide.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.messages import has_choices, icu_segments, plural_categories
from dikkat_runtime.documents.segments import (
    Content,
    Edit,
    Edits,
    Item,
    Kind,
    Options,
    Segment,
    Tag,
    is_unchanged,
    joined,
    plain,
    render,
    stripped,
    tagged,
)
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, escaper, matching, text_items, xml_nodes
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

_FILLED = re.compile(
    r"%\{[^{}\s]{1,80}\}|%#@\w{1,80}@|\$t\([^()]{1,200}\)|\$\w{1,80}\$|@:[\w.]{1,80}|#\{[^{}\s]{1,80}\}"
    r"|%(?:\d{1,2}\$)?@|<%[^%]{0,200}%>|&(?!nbsp;|shy;)\w{1,30};"
)
"""What programs fill into a text, besides the placeholders of every format."""
_COPIED = r"<(?P<code>code|pre|kbd|samp|script|style)\b[^<>]{0,400}>(?:(?!</?(?P=code)\b)[^\0]){0,2000}?</(?P=code)>"
_HIDDEN = r"<!(?:--(?:(?!-->)[^\0]){0,2000}-->|[A-Za-z][^<>]{0,400}>)"
_BORDER = (
    r"(?<!\s)\s*+(?:</?(?:p|div|li|[uod]l|h[1-6]|table|t[rdh]|thead|tbody|hr|section|blockquote|d[dt]|option)\b[^<>]{0,400}>\s*)++"
    r"|(?:</[\w:-]{1,40}>)++(?:<[\w:-]{1,40}(?:\s[^<>]{0,400})?>)++"
)
_PART = re.compile(rf"(?P<border>{_BORDER})|{_COPIED}|{_HIDDEN}|{_FILLED.pattern}")
"""What stands between two texts of HTML, code, and what is filled in."""
_CODE = re.compile(r"\S*(?:[_/\\@#=<>|{}]|\w[.:]\w|[a-z][A-Z]|\d)\S*|[a-z]+(?:-[a-z]+)+")
CODE = msg("values that are names, addresses or numbers, left as they are")
SURROGATES = msg("values with half of a surrogate pair, left as they are")
Copy = tuple[int, str, str]
"""Where a copy of a translation is inserted, and what stands before and after it."""


def app_content(text: str) -> Content:
    """Return a text with what a program fills into it as words of their own; blocks of HTML are texts of their own."""

    def tag(match: re.Match[str]) -> Tag:
        is_border = match.lastgroup is not None and match["border"] is not None
        kind: Kind = "void" if is_border else "word"
        return Tag(kind, match[0], match.start() + 1, is_text=True, parts_text=is_border)

    return tuple(tagged((text,), _PART if "<" in text else _FILLED, tag))


@dataclass
class AppStrings:
    """The texts of a file of a program."""

    file: DecodedFile
    options: Options
    remarks: Counter[str] = field(default_factory=Counter)
    segments: list[Segment] = field(default_factory=list)
    also: list[Edit] = field(default_factory=list)

    def add(
        self, start: int, end: int, text: str, write: Callable[[str], str], *, is_prose: bool = True,
        copies: Sequence[Copy] = (), is_new: bool = False,
    ) -> None:  # fmt: skip
        """Add the `text` of the characters `start` to `end`, which `write` renders anew.

        One that is not certain to be prose is left alone where it looks like code. Of a translation `copies` are added;
        one that `is_new` is written even where it is its source.
        """
        if not has_words(text) and not has_choices(text):
            return
        if any("\ud800" <= character < "\ue000" for character in text):
            self.remarks[SURROGATES] += 1
        elif not is_prose and _CODE.fullmatch(text):
            self.remarks[CODE] += 1
        else:
            content = app_content(text)

            def edits(translation: Content) -> Iterable[Edit]:
                written = write(render(translation, str))
                if is_new or not is_unchanged(translation, content):
                    yield Edit(start, end, written)
                yield from (Edit(position, position, before + written + after) for position, before, after in copies)

            self.segments.append(Segment(content, edits, self.file.line(start)))

    def document(self) -> TextDocument:
        """Return the document, its plurals and choices in the syntax of ICU read."""
        segments = icu_segments(self.segments, self.options.target_language, self.remarks)
        return TextDocument(self.file, segments, self.remarks, self.also)


_LINE = re.compile(
    r"[ \t\f]*+(?:[#!][^\r\n]*+|(?P<key>(?:\\(?:\r\n|.)|[^\s:=\\])++)[ \t\f]*+(?:[:=][ \t\f]*+)?"
    r"(?P<value>(?:\\(?:\r\n|.)|[^\\\r\n])*+))?\\?(?:\r\n|[\r\n]|\Z)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|\r[ \t\f]*|u([0-9a-fA-F]{4})|(.))|\\\Z", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ARGUMENT = re.compile(r"\{\d")


def _unescaped(raw: str) -> str:
    """Return a value with its escapes resolved; two of them may be one character outside of the first plane."""
    text = _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _LETTERS.get(match[2], match[2] or ""), raw
    )
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if "\\u" in raw else text


def _escaped(text: str, *, is_ascii: bool) -> str:
    text = text.replace("\\", "\\\\")
    for letter, character in _LETTERS.items():
        text = text.replace(character, "\\" + letter)
    text = re.sub(r"^ ", r"\\ ", text)
    if is_ascii:
        text = re.sub(r"[^\0-~]", lambda character: json.dumps(character[0])[1:-1], text)
    return text


def read_properties(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the values of a file of properties, in UTF-8 or in Latin-1; `\\uXXXX` is written where it has been."""
    try:
        file = DecodedFile.decode(data, name)
    except DataError:
        file = DecodedFile.decode(data, name, "iso-8859-1")
    strings = AppStrings(file, options)
    is_ascii = file.text.isascii() or "\\u" in file.text or file.charset != "utf-8"
    values = list[tuple[int, int, str]]()
    position = 0
    while position < len(file.text):
        line = _LINE.match(file.text, position)
        if line is None or line.end() == position:
            raise DataError("{name}:{line}: not a line of properties, such as key=value", name, file.line(position))
        if line["value"]:
            values.append((*line.span("value"), _unescaped(line["value"])))
        position = line.end()
    # MessageFormat reads '' as one apostrophe, other libraries do not; where no text tells, Java's is meant
    formats = [text for _, _, text in values if _ARGUMENT.search(text) and "'" in text]
    is_doubled = not formats or any("''" in text for text in formats)
    for start, end, text in values:
        doubles = is_doubled and _ARGUMENT.search(text) is not None and not re.search("'[{}]", text)

        def write(translation: str, doubles: bool = doubles) -> str:
            return _escaped(translation.replace("'", "''") if doubles else translation, is_ascii=is_ascii)

        strings.add(start, end, text.replace("''", "'") if doubles else text, write, is_prose=False)
    return strings.document()


_STRINGS = re.compile(
    r"""\s++|/\*.*?\*/|//[^\r\n]*+|(?:"(?:\\.|[^"\\])*+"|[\w.$:/-]++)"""
    r"""(?:\s|/\*.*?\*/)*+(?:=(?:\s|/\*.*?\*/)*+(?:"(?P<value>(?:\\.|[^"\\])*+)"|(?P<bare>[\w.$:/-]++))\s*+)?;""",
    re.DOTALL,
)
_APPLE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|([0-7]{3})|(.))", re.DOTALL)


def read_strings(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the values of a file of Apple's `.strings`, in UTF-8 or UTF-16. Raises `DataError` for one compiled."""
    if data.startswith(b"bplist"):
        raise DataError("{name}: is a compiled property list; plutil -convert strings writes its text", name)
    # older files are UTF-16 without a mark
    charset = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be" if data[:1] == b"\0" else None
    file = DecodedFile.decode(data, name, charset)
    strings, position = AppStrings(file, options), 0
    while position < len(file.text):
        entry = _STRINGS.match(file.text, position)
        if entry is None:
            raise DataError('{name}:{line}: not an entry such as "key" = "value";', name, file.line(position))
        if entry["value"]:
            strings.add(*entry.span("value"), _APPLE.sub(_apple_character, entry["value"]), _apple)
        position = entry.end()
    return strings.document()


def _apple_character(escape: re.Match[str]) -> str:
    code, base = (escape[1], 16) if escape[1] else (escape[2], 8)
    return chr(int(code, base)) if code else _LETTERS.get(escape[3], escape[3])


def _apple(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


# In XML: strings.xml of Android (Android developers, String resources), and .stringsdict of Apple.

KEPT = msg('texts of translatable="false"')
_XML_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|\s+", re.DOTALL)
_REFERENCE = re.compile(r"[@?](?:[\w.]+:)?(?:\w+/)?[\w.]+")
_QUOTED = re.compile(r'\s*+"((?:\\.|[^"\\])*+)"\s*+', re.DOTALL)
"""A text between quotation marks, which keep its white space and are not shown."""
_BLANK, _BLANK_BEFORE = re.compile(r"\A(?:\s|\\[nt])++"), re.compile(r"\A(?:\s|[nt]\\(?!\\))++")
"""White space and line breaks at the beginning of a text, and of one that is read from its end."""
_XML_LETTERS = {"n": "\n", "t": "\t"}


def read_resources(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the strings, arrays and plurals of a program for Android. Raises `DataError` for XML of another kind."""
    reader = _Resources(decode_xml(data, name), options)
    reader.read()
    return TextDocument(reader.file, reader.segments, reader.remarks)


class _Resources:
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
            raise DataError("{name}: its root is <{root}>; of XML, strings.xml of Android is translated").fill(
                self.file.name, root.name if root else ""
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
        if len(inside) == 1 and inside[0].kind == "text" and (quoted := _QUOTED.fullmatch(inside[0].raw)):
            start, end = (inside[0].start + offset for offset in quoted.span(1))
            inside = [replace(inside[0], start=start, end=end, raw=quoted[1])]
        content = _content(inside)
        if not has_words(plain(content)) or _REFERENCE.fullmatch(plain(content)):
            return
        start, end = inside[0].start, inside[-1].end
        if inside[0].kind == "text":
            start += len(inside[0].raw) - len(_BLANK.sub("", inside[0].raw, count=1))
        if inside[-1].kind == "text":
            end -= len(inside[-1].raw) - len(_BLANK_BEFORE.sub("", inside[-1].raw[::-1], count=1))
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
                items += app_content(_xml_unescaped(item)) if isinstance(item, str) else [item]
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


def _xml_unescaped(text: str) -> str:
    """Return what Android shows of a text: white space is one space, escapes are resolved."""
    return _XML_ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _XML_LETTERS.get(match[2], match[2]) if match[2] else " ",
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


def _form_edits(text: str, key: Node, string: list[Node], content: Content, language: str, stated: set[str]) -> Edits:
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
