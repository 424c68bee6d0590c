"""Read Markdown: the text of headings, paragraphs, items and tables.

Code, addresses, HTML blocks and all marks stay.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.markdown_blocks import HTML_BLOCKS, TITLES, Block, definitions, label, text_blocks
from dikkat_runtime.documents.markup_ends import NextEnd, nested_pairs
from dikkat_runtime.documents.segments import Content, Item, Kind, Options, Segment, Tag, joined, plain, render, tags_of
from dikkat_runtime.documents.xml_nodes import references_of, text_items
from dikkat_runtime.text.placeholders import has_words

# Which runs of `*`, `_` and `~` emphasize what (CommonMark 0.31, section 6.2; strikethrough as in GitHub's dialect).

_WHOLE = 3
"""Two runs of which one may both open and close do not fit if their lengths add up to a multiple of it."""


@dataclass
class Run:
    """A run of one sign, of which parts may open or close emphasis, and what is left of it."""

    sign: str
    length: int
    can_open: bool
    can_close: bool
    left: int = 0
    closing: list[Tag] = field(default_factory=list)
    opening: list[Tag] = field(default_factory=list)

    @classmethod
    def of(cls, markup: str, before: str, after: str) -> "Run":
        """Read a run between two characters, of which either is empty at an end of the text."""
        sign = markup[0]
        opens = _flanks(after, before)
        closes = _flanks(before, after)
        if sign == "_":
            opens, closes = opens and (not closes or _is_sign(before)), closes and (not opens or _is_sign(after))
        return cls(sign, len(markup), opens, closes, len(markup))

    def tags(self, number: int) -> list[Tag]:
        """Return the tags of the run; what is left of it stands alone."""
        rest = [Tag("void", self.sign * self.left, number)] if self.left else []
        return [*self.closing, *rest, *reversed(self.opening)]

    def fits(self, other: "Run") -> bool:
        """Return whether this run may open what the other one closes."""
        if self.sign == "~":
            return self.length == other.length
        is_odd = (self.length + other.length) % _WHOLE == 0 and (self.length % _WHOLE or other.length % _WHOLE)
        return not ((self.can_close or other.can_open) and is_odd)


def pair_runs(runs: Sequence[Run], first: int) -> int:
    """Pair the runs of one text by tags whose numbers begin with `first`; return the next number."""
    opened: list[int] = []
    bottoms: dict[tuple[str, bool, int], int] = {}
    for number, run in enumerate(runs):
        key = run.sign, run.can_open, run.length % _WHOLE
        while run.can_close and run.left:
            index = len(opened) - 1
            while index >= 0 and opened[index] >= bottoms.get(key, 0):
                if runs[opened[index]].sign == run.sign and runs[opened[index]].fits(run):
                    break
                index -= 1
            else:
                bottoms[key] = number
                break
            opener = runs[opened[index]]
            del opened[index + 1 :]
            size = min(opener.left, run.left) if run.sign == "~" else 2 if min(opener.left, run.left) > 1 else 1
            opener.opening.append(Tag("open", run.sign * size, first))
            run.closing.append(Tag("close", run.sign * size, first))
            opener.left, run.left, first = opener.left - size, run.left - size, first + 1
            if not opener.left:
                opened.pop()
        if run.can_open and run.left:
            opened.append(number)
    return first


def _flanks(inner: str, outer: str) -> bool:
    """Return whether a run stands right next to the text on its inner side."""
    return not _is_space(inner) and (not _is_sign(inner) or _is_space(outer) or _is_sign(outer))


def _is_space(character: str) -> bool:
    return not character or character.isspace()


def _is_sign(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "PS"


_SPECIAL = frozenset("\\`*_[]<")
_STARTING = frozenset("+-.)=>")
"""Signs that are marks at the beginning of a line alone."""
_TITLE = r"""(?:"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+'|\((?:\\.|[^()\\])*+\))"""
_PATH = r"(?:\\.|[^()\s\\])"
_TARGET = rf"\(\s*+(?:<(?:\\.|[^<>\n\\])*+>|(?!<)(?:{_PATH}|\((?:{_PATH}|\({_PATH}*+\))*+\))*+)(?:\s++{_TITLE})?+\s*+\)"
"""The address of a link with its title."""
_LINK_TITLE = re.compile(rf"{_TITLE}(?=\s*\)\Z)")
MAX_TITLE = 2000
"""Characters of a link, its last, in which a title is looked for."""
_ENDING = "?!.,:;*_~"
"""Signs that belong to an address where more of it follows."""
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>`+)"
    r"|(?P<math>\$(?=\S)[^$\n]*?[^\s$]\$(?!\d))"
    rf"|(?P<image>!\[[^\[\]]*\](?:{_TARGET}|\[[^\]]*\]))"
    rf"|(?P<address>\bhttps?://(?:[{_ENDING}]*+[^\s<>\[\]()|`\"'\\{_ENDING}]++)++)"
    r"|(?P<autolink><(?:[A-Za-z][A-Za-z0-9+.-]+:|[\w.+-]+@)[^\s<>]*>)"
    r"|(?P<footnote>\[\^[^\[\]\s]+\])"
    r"|(?P<comment><!--)"
    r"|(?P<declaration><[!?][A-Za-z\[][^<>]*>)"
    r"|(?P<html></?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>)"
    r"|(?P<opening>\[)"
    rf"|(?P<closing>\](?:{_TARGET}|\[[^\[\]\n]*\])?)"
    r"|(?P<delimiter>\*+|_+|~~)"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});)"
    r"|(?P<hard>(?<![ ])[ ]{2,}+\n|\\\n)"
    r"|(?P<soft>\n)",
    re.DOTALL,
)
_NOT_PLAIN = re.compile(
    r"""^(?:[\[\]{}&*!|>'"%@`#,]|[-?:](?:\s|$)|(?:true|false|yes|no|on|off|null|~|[-+.\d][-+.:\deEx_]*+)$)|:(?:\s|$)|\s#""",
    re.IGNORECASE,
)
"""What YAML does not read as text without quotation marks."""
_TICKS = re.compile("`+")
_ALONE_IMAGE = re.compile(r"!\[(?P<alt>[^\]]+)\]\([^()]*\)\s*")
_BLOCK_START = re.compile(
    r"#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|\d{1,9}(?=[.)](?:\s|$))|~{3}|`{3}|=+[ \t]*+$|-+[ \t]*+(?:\||$)|\||:-+|\[[^\]]*\]:"
    r"|(?:\*[ \t]*+){3,}+$|(?:-[ \t]*+){3,}+$|(?:_[ \t]*+){3,}+$|:{3}|!{3}|[?]{3}|\$\$"
    rf"|<!--|</?(?:{HTML_BLOCKS})[\s/>]",
    re.IGNORECASE,
)
"""What begins a heading, a list, a quotation, a rule, a table, code, a definition or a block of HTML."""


def read_markdown(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the texts of a file, a block a segment."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    known = definitions(file.text)
    remarks: Counter[str] = Counter()
    segments = []
    for block in text_blocks(file.text, remarks):
        segment = _front(file, block) if block.is_front else _segment(file, block, known)
        if segment is not None:
            segments.append(segment)
            links = (tag.markup[-MAX_TITLE:] for tag in tags_of(segment.content) if tag.markup.endswith(")"))
            titles = map(_LINK_TITLE.search, links)
            remarks[TITLES] += sum(title is not None and has_words(title[0]) for title in titles)
    return TextDocument(file, segments, remarks, markup=False)


def _front(file: DecodedFile, block: Block) -> Segment | None:
    """Return the segment of a value of the front matter, which is YAML."""
    start, end = block.lines[0][0], block.lines[-1][1]
    items: list[Item] = [file.text[slice(*block.lines[0])]]
    for (_, before), (after, last) in pairwise(block.lines):
        items += [Tag("void", file.text[before:after]), file.text[after:last]]
    content = tuple(items)
    if not has_words(plain(content)):
        return None
    quote = "" if block.is_folded else file.text[start - 1]

    def write(translation: Content) -> str:
        translation = _without_blank_lines(translation)
        written = render(translation, (lambda text: text.replace("'", "''")) if quote == "'" else str)
        if quote == '"' or (quote.isspace() and _NOT_PLAIN.search(written)):
            written = render(translation, lambda text: text.replace("\\", "\\\\").replace('"', '\\"'))
            written = written if quote == '"' else f'"{written}"'
        return written

    return file.segment(start, end, content, write)


def _segment(file: DecodedFile, block: Block, known: frozenset[str]) -> Segment | None:
    start, end = block.lines[0][0], block.lines[-1][1]
    raw = file.text[start:end]
    if image := _ALONE_IMAGE.fullmatch(raw):
        alt_start = start + image.start("alt")
        end = alt_start + len(image["alt"])
        bare: Callable[[Content], str] = lambda content: plain(content).replace("[", "(").replace("]", ")")  # noqa: E731
        return file.segment(alt_start, end, (image["alt"],), bare) if has_words(image["alt"]) else None
    content = inline_markdown(file.text, block, known)
    if not has_words(plain(content)):
        return None
    begins_block = [_BLOCK_START.match(file.text, *line) is not None for line in block.lines]
    escape = _escaper(raw, plain(content), block.is_cell)
    return file.segment(start, end, content, partial(_written_block, escape=escape, begins_block=begins_block))


def _written_block(translation: Content, escape: Callable[[str], str], begins_block: Sequence[bool]) -> str:
    written = ""
    for number, (line_break, line) in enumerate(_lines(_without_blank_lines(translation))):
        text = render(tuple(line), escape)
        # lines that begin so in the source are not blocks there
        is_known = begins_block[0] if not number else any(begins_block[1:])
        begins = None if is_known else _BLOCK_START.match(text)
        if begins and _is_text(line[0]):
            # escape text that would begin another kind of block
            offset = begins.end() if begins[0].isdigit() else 0
            text = f"{text[:offset]}\\{text[offset:]}"
        # markup that would begin one stays in the line before
        written += (" " if begins and number and not _is_text(line[0]) else line_break) + text
    return written


def _lines(content: Content) -> Iterator[tuple[str, list[Item]]]:
    """Yield the lines of a text, each with the break and the marks before it."""
    line_break, line = "", list[Item]()
    for item in content:
        if _is_break(item):
            yield line_break, line
            line_break, line = item.markup, []  # type: ignore[union-attr]
        elif line or not line_break or not isinstance(item, str) or (item := item.lstrip(" ")):
            line.append(item)
    yield line_break, line


def _is_break(item: Item) -> bool:
    return isinstance(item, Tag) and item.kind == "void" and item.markup.lstrip(" \t\r\\")[:1] == "\n"


def _is_text(item: Item) -> bool:
    """Return whether it is text, or a sign that emphasizes nothing."""
    return isinstance(item, str) or (item.kind == "void" and item.markup[0] in "*_~")


def _without_blank_lines(content: Content) -> Content:
    """Return content without breaks that would leave an empty line, since an empty line ends a paragraph."""
    items: list[Item] = []
    line = ""
    for item in content:
        if _is_break(item):
            # a backslash alone on a line is a break of its own
            if not (line + item.markup.partition("\n")[0]).strip():  # type: ignore[union-attr]
                continue
            line = ""
        else:
            line += item if isinstance(item, str) else item.markup
        items.append(item)
    return tuple(items)


def _escaper(source: str, text: str, is_cell: bool) -> Callable[[str], str]:
    """Return a function that escapes the signs that would be marks, unless the source has them bare."""
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", source)
    unmarked = frozenset(text)
    escaped = frozenset(re.findall(r"\\([!-/:-@\[-`{-~])", source)) - (_STARTING & frozenset(bare))
    special = {sign for sign in _SPECIAL | escaped if sign in escaped or sign not in unmarked}
    special |= {"|"} if is_cell else set()
    # between spaces these are not marks, whether the source escapes them there or not
    lone = frozenset(re.findall(r"(?<=\s)[*_](?=\s)", bare))
    written = {sign: f"\\{sign}" for sign in special} | references_of(source)

    def escape(text: str) -> str:
        return "".join(
            character if character in lone and _is_lone(text, index) else written.get(character, character)
            for index, character in enumerate(text)
        )

    return escape


def _is_lone(text: str, index: int) -> bool:
    return text[max(index - 1, 0) : index].isspace() and text[index + 1 : index + 2].isspace()


def inline_markdown(text: str, block: Block, known: frozenset[str]) -> Content:
    """Return text and marks of a block; the line breaks with their prefixes are tags of their own."""
    lines = "\n".join(text[start:end] for start, end in block.lines)
    firsts = [0, *accumulate(end - start + 1 for start, end in block.lines)][:-1]

    def offset_in_file(offset: int) -> int:
        number = bisect_right(firsts, offset) - 1
        return block.lines[number][0] + offset - firsts[number]

    return _paired(_tokens(lines, lambda start, end: text[offset_in_file(start) : offset_in_file(end)]), known)


def _tokens(text: str, written: Callable[[int, int], str]) -> list[Item | Run]:
    """Return text, and possible marks as tags whose kind is not decided yet.

    `written` returns the characters of the file between two of the text, whose lines there have prefixes.
    """
    tokens: list[Item | Run] = []
    position = start = 0
    code_ends, comment_end = _code_ends(text), NextEnd(text, "-->")
    while match := _INLINE.search(text, start):
        kind, start = match.lastgroup or "", match.end()
        if kind == "code":
            ends = code_ends[len(match[0])]
            number = bisect_right(ends, start)
            start = ends[number] if number < len(ends) else -1
        elif kind == "comment":
            start = comment_end.find(start)
        if start < 0:
            # it never ends, so it is text
            start = match.end()
            continue
        tokens.append(text[position : match.start()])
        raw, position = written(match.start(), start), start
        if kind == "delimiter":
            tokens.append(Run.of(raw, text[max(match.start() - 1, 0) : match.start()], text[start : start + 1]))
        elif kind == "escape":
            tokens.append(raw[1:])
        elif kind == "entity":
            tokens += text_items(raw)
        else:
            tokens.append(_mark(kind, raw))
    tokens.append(text[position:])
    return joined(tokens)


def _mark(kind: str, raw: str) -> Tag:
    if kind in ("code", "math", "autolink", "address"):
        return Tag("word", raw, 1)
    if kind in ("opening", "closing"):
        return _Half("void", raw, 1, family="[", opens=kind == "opening")
    if kind == "html":
        name = re.findall(r"[\w-]+", raw)[0]
        if not raw.endswith("/>") and name not in ("br", "img", "hr", "wbr"):
            return _Half("void", raw, 1, family=f"<{name}", opens=not raw.startswith("</"))
        return Tag("void", raw, 1, name == "br")
    return Tag("void", raw, 1, kind == "hard")


def _code_ends(line: str) -> dict[int, list[int]]:
    """Return for each number of backticks where runs of so many end."""
    ends: dict[int, list[int]] = defaultdict(list)
    for run in _TICKS.finditer(line):
        ends[len(run[0])].append(run.end())
    return ends


@dataclass(frozen=True, slots=True)
class _Half(Tag):
    """One half of a pair, if its other half is found."""

    family: str = ""
    opens: bool = False


def _paired(tokens: list[Item | Run], known: frozenset[str]) -> Content:
    """Turn halves that belong together into pairs: links, then the emphasis in each, then elements of HTML."""
    links = nested_pairs(
        (number, "[", token.opens)
        for number, token in enumerate(tokens)
        if isinstance(token, _Half) and token.family == "["
    )
    _unlink_shortcuts(tokens, links, known)
    closes = {close: opening for opening, close in links.items()}
    runs: dict[int, list[Run]] = defaultdict(list)
    inside = [-1]
    for number, token in enumerate(tokens):
        if number in links:
            inside.append(number)
        elif number in closes:
            inside.pop()
        elif isinstance(token, Run):
            runs[inside[-1]].append(token)
    pair = len(tokens) + 1
    for row in runs.values():
        pair = pair_runs(row, pair)
    items: list[Item] = []
    for number, token in enumerate(tokens):
        if isinstance(token, Run):
            # a line under or between letters that emphasizes nothing is part of a word
            is_text = token.left == token.length and (token.sign != "*" or not (token.can_open or token.can_close))
            items += [token.sign * token.length] if is_text else token.tags(number + 1)
        elif number in links:
            items.append(Tag("open", token.markup, number + 1))  # type: ignore[union-attr]
        elif number in closes:
            items.append(Tag("close", token.markup, closes[number] + 1))  # type: ignore[union-attr]
        elif isinstance(token, _Half) and token.family == "[":
            items.append(token.markup)
        else:
            items.append(token)
    return _with_shortcuts(_with_elements(joined(items), pair), known)


def _with_elements(items: list[Item], first: int) -> Content:
    """Pair elements of HTML that cross no other pair; the others stand alone."""
    halves: list[tuple[int, str, bool]] = []
    opened: list[int] = []
    for number, item in enumerate(items):
        if isinstance(item, _Half):
            halves.append((number, f"{opened[-1:]}{item.family}", item.opens))
        elif isinstance(item, Tag) and item.kind == "open":
            opened.append(item.pair)
        elif isinstance(item, Tag) and item.kind == "close":
            opened.pop()
    partner = nested_pairs(halves)
    closes = {close: opening for opening, close in partner.items()}
    for number, item in enumerate(items):
        if isinstance(item, _Half):
            kind: Kind = "open" if number in partner else "close" if number in closes else "void"
            items[number] = Tag(kind, item.markup, first + closes.get(number, number))
    return tuple(items)


def _unlink_shortcuts(tokens: list[Item | Run], partner: dict[int, int], known: frozenset[str]) -> None:
    """Turn brackets that are no links into text, but those that a link named by its text has, for `_with_shortcuts`."""
    openings = sorted(number for number in partner if tokens[number].markup == "[")  # type: ignore[union-attr]
    for opening, following in pairwise([*openings, len(tokens)]):
        close = partner[opening]
        markup = tokens[close].markup  # type: ignore[union-attr]
        if markup in ("]", "][]"):
            name = "".join(map(_written, tokens[opening + 1 : close])) if close < following else ""
            if label(name) not in known:
                del partner[opening]
        elif markup.startswith("][") and label(markup[2:-1]) not in known and not set(markup) & set("._:/`"):
            # generators of documentation link names of code that no line defines
            del partner[opening]


def _written(token: Item | Run) -> str:
    return token if isinstance(token, str) else token.sign * token.length if isinstance(token, Run) else token.markup


def _with_shortcuts(content: Content, known: frozenset[str]) -> Content:
    """Return content in which a link that is named by its text stands for a word, since its name must not change."""
    closes = ((index, item) for index, item in enumerate(content) if isinstance(item, Tag) and item.kind == "close")
    ends = {item.pair: index for index, item in closes if item.markup in ("]", "][]")}
    items: list[Item] = []
    number = 0
    while number < len(content):
        item, end = content[number], number
        if isinstance(item, Tag) and item.kind == "open" and item.markup == "[" and item.pair in ends:
            end = ends[item.pair]
            item = Tag("word", "".join(map(_written, content[number : end + 1])), item.pair)
        items.append(item)
        number = end + 1
    return tuple(items)
