"""Split XML into a row of nodes with their positions in the file, after expat has found it well-formed.

Nothing outside the file is fetched, and a file that declares entities is refused.
"""

import html
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn
from xml.parsers import expat

from dikkat_runtime.documents.decoded_file import DecodedFile
from dikkat_runtime.documents.segments import Item, Tag, tagged
from dikkat_runtime.errors import DataError, msg

_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
ILLEGAL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:x0*(?:[0-8bcBCeE]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2\\d|3[01]));"
)
_SPECIAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff&<>]")
DOCTYPE = (
    r"""<!DOCTYPE(?=[\s\[])(?:"[^"]*+"|'[^']*+'|[^"'\[<>])*+"""
    r"""(?:\[(?:"[^"]*+"|'[^']*+'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?)|[^"'<\]])*+\]\s*)?+>"""
)
"""A pattern of a document type with the declarations in it."""
_NODE = re.compile(
    r"<!--(?:.*?)-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>|" + DOCTYPE + r"|</(?P<close>[^\s>]+)\s*>"
    r"""|<(?P<open>[^\s/>!?]+)(?P<attributes>(?:\s+[^\s=]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(?P<empty>/)?>"""
    r"|(?P<text>[^<]+)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#(\d+)|(\w+));")
_MAX_DIGITS = 20
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
NodeKind = Literal["open", "close", "empty", "text", "cdata", "other"]
_KINDS: dict[str | None, NodeKind] = {
    "attributes": "open",
    "empty": "empty",
    "close": "close",
    "text": "text",
    "cdata": "cdata",
}
"""By the last group of `_NODE` that matches."""
CONTROLS = msg("control characters that XML forbids, kept where they are")


@dataclass(frozen=True)
class Node:
    """A tag or a text; characters `start` to `end` of the file."""

    kind: NodeKind
    start: int
    end: int
    raw: str
    name: str = ""
    """With the prefix as it is written."""

    @property
    def local(self) -> str:
        """The name without its prefix."""
        return self.name.rpartition(":")[2]

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The attributes by their names as written, references resolved."""
        pairs = _ATTRIBUTE.findall(self.raw) if self.kind in ("open", "empty") else ()
        return {name: unescaped(double or single) for name, double, single in pairs}

    @property
    def text(self) -> str:
        """The characters of a text, references resolved."""
        if self.kind == "cdata":
            return self.raw[len("<![CDATA[") : -len("]]>")]
        return unescaped(self.raw) if self.kind == "text" else ""


def decode_xml(data: bytes, name: str) -> DecodedFile:
    """Decode an XML file by its byte-order mark, else as it declares."""
    return DecodedFile.decode(data, name, declared_charset(data[:1000]))


def declared_charset(head: bytes) -> str | None:
    """Return the charset that the beginning of an XML file without a byte-order mark declares or shows; else None."""
    if head[:2] in (b"<\0", b"\0<"):
        return "utf-16-le" if head[1] == 0 else "utf-16-be"
    declared = _DECLARED.search(head)
    return declared[1].decode("ascii") if declared else None


def xml_nodes(file: DecodedFile, remarks: Counter[str]) -> list[Node]:
    """Return the nodes of a well-formed file, in order. Illegal control characters are counted among the `remarks`.

    Raises `DataError` with line and byte position for a file that is not well-formed.
    """
    clean, count = ILLEGAL.subn(lambda match: "\ufffd" * len(match[0]), file.text)
    if count:
        remarks[CONTROLS] += count
    parse(xml_parser(file.name), file.name, clean.encode("utf-8", "surrogatepass"), is_last=True)
    return [
        Node(_KINDS.get(match.lastgroup, "other"), *match.span(), match[0], match["open"] or match["close"] or "")
        for match in _NODE.finditer(file.text)
    ]


def xml_parser(name: str) -> expat.XMLParserType:
    """Return a parser of UTF-8 that refuses a file which declares entities."""
    parser = expat.ParserCreate("utf-8")

    def refuse(entity: str, *_: object) -> NoReturn:
        raise DataError('{name}: declares the entity "{entity}", which no document needs; not read', name, entity)

    parser.EntityDeclHandler = refuse
    return parser


def parse(parser: expat.XMLParserType, name: str, data: bytes, *, is_last: bool) -> None:
    """Parse one more piece of the file `name`. Raises `DataError` with its line and byte for what is no XML."""
    try:
        parser.Parse(data, is_last)
    except expat.ExpatError as error:
        raise DataError("{name}:{line}: byte {byte:,}: not valid XML ({error})").fill(
            name, error.lineno, max(0, parser.ErrorByteIndex), expat.ErrorString(error.code)
        ) from None


def matching(nodes: list[Node]) -> dict[int, int]:
    """Return for the number of each opening tag that of its closing one; an empty element is its own."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for number, node in enumerate(nodes):
        if node.kind == "open":
            opened.append(number)
        elif node.kind == "close":
            partner[opened.pop()] = number
        elif node.kind == "empty":
            partner[number] = number
    return partner


def unescaped(text: str) -> str:
    """Return text with its references resolved; an unknown one stays."""
    return _REFERENCE.sub(_resolved, text) if "&" in text else text


def _resolved(reference: re.Match[str]) -> str:
    hexadecimal, decimal, name = reference.groups()
    if name:
        return _NAMED.get(name, reference[0])
    digits, base = (hexadecimal, 16) if hexadecimal else (decimal, 10)
    number = int(digits, base) if len(digits) < _MAX_DIGITS else -1
    is_character = 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if is_character else str(reference[0])


def escaped(text: str) -> str:
    """Escape text for XML; control characters that it forbids are left out."""
    if _SPECIAL.search(text) is None:
        return text
    return ILLEGAL.sub("", html.escape(text, quote=False))


def quoted(text: str) -> str:
    """Escape text for an attribute in double quotation marks."""
    return escaped(text).replace('"', "&quot;")


# References in a text: letters and signs are text, and what only a DTD knows is a tag that stays.

_ANY_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[^\W\d][\w.:-]*+);")
_REWRITTEN = frozenset("\"'")
"""Characters of ASCII that are written as references again where the source has such."""


def text_items(raw: str) -> list[Item]:
    """Return text and references of the characters `raw` between two tags of a file."""
    if "&" not in raw:
        return [raw]

    def read(match: re.Match[str]) -> Item:
        # an entity of the file's own stands for words; a space, or a sign that HTML names, for none
        is_word = match[0][1] != "#" and html.unescape(match[0]) == match[0]
        return _character(match[0]) or Tag("word" if is_word else "void", match[0])

    return tagged((raw,), _ANY_REFERENCE, read)


def escaper(source: str) -> Callable[[str], str]:
    """Return a function that escapes text with the same references for the same characters as the source has."""
    references = {
        ord(character): reference
        for character, reference in references_of(source).items()
        if character in _REWRITTEN or ord(character) > 127
    }
    return lambda text: escaped(text).translate(references)


def references_of(source: str) -> dict[str, str]:
    """Return how the characters that stand in the source as references are written there."""
    # a name rather than a number, where the source has both
    by_kind = sorted(_ANY_REFERENCE.findall(source), key=lambda reference: reference[1] != "#")
    known = ((_character(reference), reference) for reference in by_kind)
    return {character: reference for character, reference in known if character}


def _character(reference: str) -> str | None:
    """Return the character of a reference; None for a space, no character, and a name that is none of a letter."""
    character = unescaped(reference)
    if character == reference:
        character = html.unescape(reference)
        return character if len(character) == 1 and character.isalpha() else None
    return None if character in " \t\r\n" or escaped(character) == "" else character
