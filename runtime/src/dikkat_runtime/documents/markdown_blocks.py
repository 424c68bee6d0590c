"""Find the blocks of a Markdown file that hold text, each as the spans of its lines.

Source: CommonMark 0.31, with the tables and front matter of GitHub. Unsure blocks are left alone.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from dikkat_runtime.documents.alignment import Span
from dikkat_runtime.errors import msg
from dikkat_runtime.text.placeholders import has_words

_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")
_CONTAINER = re.compile(
    r"(?:[ ]{0,3}>[ ]?|[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|[ \t]*\[\^[^\]\s]+\]:[ \t]+)*"
)
_QUOTE = re.compile(r"(?:[ ]{0,3}>[ ]?)*[ \t]*")
_QUOTES = re.compile(r"(?:[ ]{0,3}>[ ]?)*")
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,}|\$\$)")
_HEADING = re.compile(r"#{1,6}[ \t]++")
_RULE = re.compile(r"(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*$")
_DELIMITERS = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_DEFINITION = re.compile(r"[ ]{0,3}\[(?P<name>[^\]^][^\]]*)\]:[ \t]*\S+(?P<title>[^\n]*)")
HTML_BLOCKS = (
    "address|article|aside|blockquote|body|caption|center|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure"
    "|footer|form|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|ol|option|p|param|pre|script|section"
    "|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul"
)
"""The names of elements that begin a block, which may interrupt a paragraph."""
_HTML = re.compile(r"<(?:!--|[!?]|/?(?:[A-Za-z][\w-]*)(?:[\s/>]|$))")
_HTML_BLOCK = re.compile(rf"<(?:!--|\?|![A-Z]|!\[CDATA\[|/?(?:{HTML_BLOCKS})(?:[\s/>]|$))", re.IGNORECASE)
_HTML_ENDS = {
    "<!--": "-->", "<?": "?>", "<![cdata[": "]]>", "<!": ">", "<script": "</script>", "<style": "</style>",
    "<pre": "</pre>", "<textarea": "</textarea>",
}  # fmt: skip
"""What ends a block that an empty line does not."""
_UNSEEN = re.compile(r"<!--.*?(?:-->|\Z)|<[^<>]*>|<(?:script|style).*", re.DOTALL | re.IGNORECASE)
_DIRECTIVE = re.compile(r":::|!!!|\?\?\?|\{%|\{\{|import[ ]|export[ ]|@import")
_CELL = re.compile(r"(?:\\.|`[^`]*`|[^|\\`]|\\|`)+")
_KEY = re.compile(r"(?:title|description|summary|subtitle|excerpt)[ \t]*:(?:[ \t]+|$)")
_FOLDED = re.compile(r"[>|][-+\d]*[ \t]*(?:#.*)?$")
_COMMENT = re.compile(r"[ \t]#")
_CODE_ITEM = re.compile(r"(?:[ ]{0,3}>[ ]?)*[ ]*(?:[-*+]|\d{1,9}[.)])(?:[ ]{5}|[ ]*\t\t)")
_ALERT = re.compile(r"[ ]{0,3}>[ >]*(?P<mark>\[![\w-]+\][-+]?)[ \t]*")
CODE = msg("blocks of code, left as they are")
HTML = msg("blocks of HTML, left as they are")
TITLES = msg("titles of links, left as they are")
DIRECTIVES = msg("lines for programs that make pages, left as they are")
FRONT = msg("other values of the front matter, left as they are")


@dataclass
class Block:
    """The lines of one text, without their prefixes."""

    lines: list[Span] = field(default_factory=list)
    is_cell: bool = False
    """True if it is a cell of a table, which a bar ends."""
    is_front: bool = False
    """True if it is a value of the front matter, which is not a Markdown."""
    is_folded: bool = False
    """True if it is a value of the front matter whose lines need no escaping."""


def _title(text: str) -> str:
    """Return the text of a heading without the signs that may close it."""
    text = text.rstrip(" \t")
    unclosed = text.rstrip("#")
    return unclosed.rstrip(" \t") if unclosed.endswith((" ", "\t")) else text


def _indent(text: str) -> int:
    """Return the number of columns before the text of a line."""
    columns = text.expandtabs(4)
    return len(columns) - len(columns.lstrip())


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str

    def span(self, first: int = 0) -> Span:
        return self.start + first, self.start + len(self.text)


def definitions(text: str) -> frozenset[str]:
    """Return the names of the links that are defined somewhere in the file, in small letters."""
    return frozenset(label(match["name"]) for line in text.split("\n") if (match := _DEFINITION.match(line)))


def label(name: str) -> str:
    """Return the name of a link as it is compared: in small letters, white space as one space."""
    return " ".join(name.casefold().split())


def text_blocks(text: str, remarks: Counter[str]) -> Iterator[Block]:
    """Yield headings, paragraphs, items, cells and values of the front matter, in order; count what is left out."""
    lines = [_Line(match.start(), match[1]) for match in _LINE.finditer(text)]
    number = 0
    if lines and lines[0].text.rstrip() in ("---", "+++"):
        end = next((n for n in range(1, len(lines)) if lines[n].text.rstrip() == lines[0].text.rstrip()), 0)
        yield from _front_blocks(lines[1:end], remarks)
        number = end + 1 if end else 0
    yield from _Reader(lines, remarks).blocks(number)


def _front_blocks(lines: list[_Line], remarks: Counter[str]) -> Iterator[Block]:
    """Yield the values of the front matter that people read, on one line or folded over several."""
    number = 0
    while number < len(lines):
        line, key, first = lines[number], _KEY.match(lines[number].text), number + 1
        number = first
        while number < len(lines) and (lines[number].text[:1].isspace() or not lines[number].text):
            number += 1
        if key is None:
            remarks[FRONT] += has_words(line.text.partition(":")[2])
            continue
        rest = line.text[key.end() :].rstrip()
        if _FOLDED.match(rest):
            for has_text, paragraph in groupby(lines[first:number], lambda other: bool(other.text.strip())):
                if has_text:
                    yield Block(list(map(_trimmed, paragraph)), is_front=True, is_folded=True)
        elif rest and rest[0] not in "|>&*!{[#":
            others = (other for other in lines[first:number] if other.text.strip())
            spans = [_trimmed(line, key.end()), *map(_trimmed, others)]
            if (quote := rest[0]) in "\"'":
                last = line if len(spans) == 1 else lines[number - 1]
                if last.text.rstrip()[-1:] != quote or len(rest) < 2:
                    continue
                spans = [(spans[0][0] + 1, spans[0][1]), *spans[1:]]
                spans[-1] = spans[-1][0], spans[-1][1] - 1
            elif comment := _COMMENT.search(rest):
                spans = [(spans[0][0], spans[0][0] + comment.start())]
            yield Block(spans, is_front=True)


def _trimmed(line: _Line, first: int = 0) -> Span:
    text = line.text[first:]
    start = line.start + first + len(text) - len(text.lstrip())
    return start, start + len(text.strip())


class _Reader:
    def __init__(self, lines: list[_Line], remarks: Counter[str]) -> None:
        self._lines, self._remarks = lines, remarks
        self._block = Block()
        self._item_indent: int | None = None
        """Start of the text of the list item that may continue; None outside of lists."""
        self._after_blank = True
        self._depth = 0
        """How many quotations the block stands in."""

    def blocks(self, number: int) -> Iterator[Block]:
        while number < len(self._lines):
            line = self._lines[number]
            prefix = self._prefix(line.text)
            rest = line.text[prefix:]
            step = self._skipped(number, prefix, rest)
            if step or not rest.strip():
                yield from self._flush()
                self._after_blank = True
                number += max(1, step)
                continue
            if self._is_table(number, rest):
                yield from self._flush()
                number = yield from self._table(number)
                continue
            depth = line.text.count(">", 0, prefix)
            if self._block.lines and depth > self._depth:
                # a quotation inside the one before
                yield from self._flush()
                continue
            self._depth = self._depth if self._block.lines else depth
            if not self._block.lines and (alert := _ALERT.match(line.text)):
                if alert.end() < len(line.text):
                    yield Block([(line.start + alert.end(), line.start + len(line.text))])
            elif heading := _HEADING.match(rest):
                yield from self._flush()
                first = prefix + heading.end()
                yield Block([(line.start + first, line.start + first + len(_title(line.text[first:])))])
            elif (self._block.lines and _UNDERLINE.match(rest)) or _RULE.match(rest):
                yield from self._flush()
            else:
                if self._begins_item(line.text):
                    yield from self._flush()
                self._block.lines.append(line.span(prefix))
            self._after_blank = False
            number += 1
        yield from self._flush()

    def _prefix(self, text: str) -> int:
        """Return the length of the prefix of a line: quotation marks, bullets, indentation."""
        container = _CONTAINER.match(text)
        end = container.end() if container else 0
        if self._begins_item(text):
            is_note = text.lstrip("> \t").startswith("[^")
            self._item_indent = 4 if is_note else len(text[:end].expandtabs(4))
        elif self._after_blank and text.strip() and _indent(text) < (self._item_indent or 0):
            self._item_indent = None
        if self._block.lines and not self._begins_item(text):
            quote = _QUOTE.match(text)
            return quote.end() if quote else 0
        return end if end else len(text) - len(text.lstrip(" \t")) if not self._is_code(text) else 0

    def _begins_item(self, text: str) -> bool:
        if self._is_code(text):
            return False
        rest = text[quote.end() :] if (quote := _QUOTE.match(text)) else text
        return re.match(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\S|\[\^[^\]\s]+\]:", rest) is not None and not _RULE.match(rest)

    def _is_code(self, text: str) -> bool:
        """Return whether an indented line is code rather than text."""
        return not self._block.lines and self._depth_in(text) >= 4

    def _depth_in(self, text: str) -> int:
        """Return the number of columns before the text of a line, those of its quotations and its item aside."""
        quote = _QUOTES.match(text)
        before = quote.end() if quote else 0
        return _indent(text[before:]) - max(0, (self._item_indent or 0) - before)

    def _skipped(self, number: int, prefix: int, rest: str) -> int:
        """Return how many lines from here on hold no text."""
        if fence := _FENCE.match(rest.lstrip()):
            mark = fence[1]
            self._remarks[CODE] += mark != "$$"
            for end in range(number + 1, len(self._lines)):
                inside = self._lines[end].text.lstrip("> \t").rstrip()
                is_mark = inside.startswith(mark) and not inside.strip(mark[0])
                if is_mark and self._depth_in(self._lines[end].text) < 4:
                    return end + 1 - number
            return len(self._lines) - number
        text = self._lines[number].text
        if _CODE_ITEM.match(text) or self._is_code(text):
            before = self._lines[number - 1].text if number else ""
            self._remarks[CODE] += not before.strip() or not self._is_code(before)
            return 1
        if (_HTML_BLOCK if self._block.lines else _HTML).match(rest):
            return self._html(number, rest)
        if self._block.lines:
            return 0
        if definition := _DEFINITION.match(text):
            self._remarks[TITLES] += has_words(definition["title"])
            return 1
        if not _DIRECTIVE.match(rest):
            return 0
        self._remarks[DIRECTIVES] += 1
        if rest.startswith(("!!!", "???")):
            # what follows it indented is text
            self._item_indent = 4 + prefix
        return 1

    def _html(self, number: int, rest: str) -> int:
        """Return the number of lines of a block of HTML; a tag of one word with text after it is a paragraph."""
        if re.match(r"<(?:a|b|i|em|strong|code|kbd|span|img|br|sub|sup|u|s|small|mark|https?:)\b", rest):
            return 0
        mark = next((end for begin, end in _HTML_ENDS.items() if rest.lower().startswith(begin)), None)
        texts = [rest]
        while not (mark in texts[-1].lower() if mark else not texts[-1].strip()):
            if number + len(texts) == len(self._lines):
                break
            texts.append(self._lines[number + len(texts)].text)
        self._remarks[HTML] += has_words(_UNSEEN.sub("", "\n".join(texts)))
        return len(texts)

    def _is_table(self, number: int, rest: str) -> bool:
        below = self._lines[number + 1].text if number + 1 < len(self._lines) else ""
        return "|" in rest and "|" in below and _DELIMITERS.match(below[self._quote(below) :]) is not None

    def _quote(self, text: str) -> int:
        return match.end() if (match := _QUOTE.match(text)) else 0

    def _table(self, number: int) -> Generator[Block, None, int]:
        first = number
        while number < len(self._lines) and "|" in (line := self._lines[number]).text and not self._is_code(line.text):
            if number != first + 1:
                for cell in _CELL.finditer(line.text, self._quote(line.text)):
                    yield Block([(line.start + cell.start(), line.start + cell.end())], is_cell=True)
            number += 1
        return number

    def _flush(self) -> Iterator[Block]:
        if self._block.lines:
            yield self._block
        self._block = Block()
