"""Read Markdown: the text of headings, paragraphs, items and tables.

Code, addresses, HTML blocks and all marks stay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.markdown_blocks import Block, definitions, text_blocks
from dikkat_runtime.documents.markup_ends import NextEnd
from dikkat_runtime.documents.segments import Content, Edit, Item, Options, Segment, Tag, plain, render
from dikkat_runtime.text.placeholders import has_words

_MAX_OPEN = 50
"""Most marks that may wait for their other half."""
_SPECIAL = frozenset("\\`*_[]<")
_ANY_SIGN = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>`+)"
    r"|(?P<math>\$(?=\S)[^$\n]*?[^\s$]\$(?!\d))"
    r"|(?P<image>!\[[^\[\]]*\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)|\[[^\]]*\]))"
    r"|(?P<autolink><(?:[A-Za-z][A-Za-z0-9+.-]+:|[\w.+-]+@)[^\s<>]*>)"
    r"|(?P<footnote>\[\^[^\[\]\s]+\])"
    r"|(?P<comment><!--)"
    r"|(?P<html></?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>)"
    r"|(?P<opening>\[)"
    r"|(?P<closing>\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)|\[[^\]\n]*\])?)"
    r"|(?P<delimiter>\*+|_+|~~)"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});)"
    r"|(?P<hard>(?<![ ])[ ]{2,}+\n|\\\n)",
    re.DOTALL,
)
_TICKS = re.compile("`+")
_ALONE_IMAGE = re.compile(r"!\[(?P<alt>[^\]]+)\]\([^()]*\)\s*")
_BLOCK_START = re.compile(r"(?:#{1,6}(?=\s)|[-+*](?=\s)|>|\d{1,9}(?=[.)]\s)|~{3}|={2,}$|-{2,}$|\|)")


def read_markdown(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the texts of a file, a block a segment."""
    file = DecodedFile.decode(data, name)
    known = definitions(file.text)
    segments = []
    for block in text_blocks(file.text):
        segment = _front(file, block) if block.is_front else _segment(file, block, known)
        if segment is not None:
            segments.append(segment)
    return TextDocument(file, segments, markup=False)


def _front(file: DecodedFile, block: Block) -> Segment | None:
    start, end = block.lines[0]
    quote = file.text[start - 1 : start]
    escape = {
        '"': lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
        "'": lambda text: text.replace("'", "''"),
    }
    bare: Callable[[str], str] = lambda text: re.sub(r":(?=\s)", " -", text).replace(" #", " ")  # noqa: E731
    if not has_words(file.text[start:end]):
        return None
    edits = _replacement(start, end, escape.get(quote, bare))
    return Segment((file.text[start:end],), edits, file.line(start))


def _segment(file: DecodedFile, block: Block, known: frozenset[str]) -> Segment | None:
    start, end = block.lines[0][0], block.lines[-1][1]
    raw = file.text[start:end]
    if image := _ALONE_IMAGE.fullmatch(raw):
        alt_start = start + image.start("alt")
        edits = _replacement(
            alt_start, alt_start + len(image["alt"]), lambda text: text.replace("[", "(").replace("]", ")")
        )
        return Segment((image["alt"],), edits, file.line(start)) if has_words(image["alt"]) else None
    content = inline_markdown(file.text, block, known)
    if not has_words(plain(content)):
        return None
    begins_block = _BLOCK_START.match(raw) is not None
    edits = _replacement(start, end, _escaper(raw, block.is_cell), begins_block)
    return Segment(content, edits, file.line(start))


def _replacement(
    start: int, end: int, escape: Callable[[str], str], begins_block: bool = False
) -> Callable[[Content], Iterable[Edit]]:
    def edits(translation: Content) -> Iterable[Edit]:
        translation = _without_blank_lines(translation)
        written = render(translation, escape)
        first = next((item for item in translation if item != ""), None)
        match = None if begins_block else _BLOCK_START.match(written)
        if isinstance(first, str) and match:
            # escape text that would begin another kind of block
            offset = match.end() if match[0].isdigit() else 0
            written = f"{written[:offset]}\\{written[offset:]}"
        return [Edit(start, end, written)]

    return edits


def _without_blank_lines(content: Content) -> Content:
    """Return content without breaks that would leave an empty line, since an empty line ends a paragraph."""
    items: list[Item] = []
    line = ""
    for item in content:
        if isinstance(item, Tag) and "\n" in item.markup and item.kind == "void":
            # a backslash alone on a line is a break of its own
            if not (line + item.markup.partition("\n")[0]).strip():
                continue
            line = ""
        else:
            line += item if isinstance(item, str) else item.markup
        items.append(item)
    return tuple(items)


def _escaper(source: str, is_cell: bool) -> Callable[[str], str]:
    """Return a function that escapes the signs that would be marks, unless the source has them bare."""
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", source)
    escaped = frozenset(re.findall(r"\\([!-/:-@\[-`{-~])", source)) & (_ANY_SIGN if is_cell else _SPECIAL)
    special = {sign for sign in _SPECIAL | escaped if sign in escaped or sign not in bare}
    special |= {"|"} if is_cell else set()
    # between spaces these are no marks, whether the source escapes them there or not
    lone = frozenset(re.findall(r"(?<=\s)[*_](?=\s)", bare))

    def escape(text: str) -> str:
        return "".join(
            f"\\{character}"
            if character in special and not (character in lone and _is_lone(text, index))
            else character
            for index, character in enumerate(text)
        )

    return escape


def _is_lone(text: str, index: int) -> bool:
    return text[max(index - 1, 0) : index].isspace() and text[index + 1 : index + 2].isspace()


def inline_markdown(text: str, block: Block, known: frozenset[str]) -> Content:
    """Return text and marks of a block; the line breaks with their prefixes are tags of their own."""
    tokens: list[Item] = []
    for number, (start, end) in enumerate(block.lines):
        if number:
            before = block.lines[number - 1][1]
            last = text[block.lines[number - 1][0] : before]
            is_escaped = (len(last) - len(last.rstrip("\\"))) % 2 == 1
            trailing = last.endswith("  ") or is_escaped
            gap = text[before:start]
            if trailing and isinstance(tokens[-1], str):
                stripped = tokens[-1][:-1] if is_escaped else tokens[-1].rstrip(" ")
                gap = tokens[-1][len(stripped) :] + gap
                tokens[-1] = stripped
            tokens.append(Tag("void", gap, ends_sentence=trailing))
        tokens += _tokens(text[start:end], block.is_cell)
    return _paired(tokens, known)


def _tokens(line: str, is_cell: bool) -> list[Item]:
    """Return text, and possible marks as tags whose kind is not decided yet."""
    tokens: list[Item] = []
    position = start = 0
    code_ends, comment_end = _code_ends(line), NextEnd(line, "-->")
    while match := _INLINE.search(line, start):
        kind, start = match.lastgroup, match.end()
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
        tokens.append(line[position : match.start()])
        raw, position = line[match.start() : start], start
        if kind == "escape":
            # an escape that a text does not need is kept
            tokens.append(raw[1:] if raw[1] in _SPECIAL or is_cell else Tag("void", raw, 1))
        elif kind in ("code", "math", "autolink", "entity"):
            tokens.append(Tag("word", raw, 1) if kind != "entity" else Tag("void", raw, 1))
        elif kind in ("image", "footnote", "comment", "hard"):
            tokens.append(Tag("void", raw, 1))
        elif kind == "html":
            name = re.findall(r"[\w-]+", raw)[0]
            is_void = raw.endswith("/>") or name in ("br", "img", "hr", "wbr")
            tokens.append(
                Tag("void", raw, 1, name == "br") if is_void else _half(raw, f"<{name}", not raw.startswith("</"))
            )
        elif kind in ("opening", "closing"):
            tokens.append(_half(raw, "[", kind == "opening"))
        else:
            tokens.append(_delimiter(line, match))
    tokens.append(line[position:])
    joined: list[Item] = []
    for token in tokens:
        if isinstance(token, str) and joined and isinstance(joined[-1], str):
            joined[-1] += token
        elif token != "":
            joined.append(token)
    return joined


def _code_ends(line: str) -> dict[int, list[int]]:
    """Return for each number of backticks where runs of so many end."""
    ends: dict[int, list[int]] = defaultdict(list)
    for run in _TICKS.finditer(line):
        ends[len(run[0])].append(run.end())
    return ends


class _Half(Tag):
    """One half of a pair, if its other half is found."""

    __slots__ = ("can_close", "can_open", "family")
    family: str
    can_open: bool
    can_close: bool


def _half(raw: str, family: str, opens: bool, closes: bool | None = None) -> _Half:
    half = _Half("void", raw, 1)
    object.__setattr__(half, "family", family)
    object.__setattr__(half, "can_open", opens)
    object.__setattr__(half, "can_close", not opens if closes is None else closes)
    return half


def _delimiter(line: str, match: re.Match[str]) -> Item:
    before, after = line[match.start() - 1 : match.start()], line[match.end() : match.end() + 1]
    inside_word = match[0][0] == "_" and before.isalnum() and after.isalnum()
    opens = bool(after.strip()) and not inside_word and not (match[0][0] == "_" and before.isalnum())
    closes = bool(before.strip()) and not inside_word and not (match[0][0] == "_" and after.isalnum())
    if not opens and not closes:
        return match[0]
    return _half(match[0], match[0], opens, closes)


def _paired(tokens: list[Item], known: frozenset[str]) -> Content:
    """Turn halves that belong together into pairs, others into text."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for number, token in enumerate(tokens):
        if not isinstance(token, _Half):
            continue
        same = [index for index, other in enumerate(opened) if tokens[other].family == token.family]  # type: ignore[union-attr]
        if token.can_close and same and number - opened[same[-1]] > 1:
            partner[opened[same[-1]]] = number
            del opened[same[-1] :]
        elif token.can_open:
            opened = [*opened[-_MAX_OPEN:], number]
    _unlink_shortcuts(tokens, partner, known)
    closes = {close: opening for opening, close in partner.items()}
    items: list[Item] = []
    for number, token in enumerate(tokens):
        if not isinstance(token, _Half):
            items.append(token)
        elif number in partner:
            items.append(Tag("open", token.markup, number + 1))
        elif number in closes:
            items.append(Tag("close", token.markup, closes[number] + 1))
        elif token.family.startswith("<"):
            items.append(Tag("void", token.markup, number + 1))
        else:
            items.append(token.markup)
    return _with_shortcuts(tuple(items), known)


def _unlink_shortcuts(tokens: list[Item], partner: dict[int, int], known: frozenset[str]) -> None:
    """Turn brackets that are no link into text.

    Those of a link that is named by its text stay for `_with_shortcuts`.
    """
    for opening, close in list(partner.items()):
        markup = tokens[close].markup  # type: ignore[union-attr]
        if tokens[opening].markup == "[" and markup in ("]", "][]"):  # type: ignore[union-attr]
            name = "".join(token if isinstance(token, str) else token.markup for token in tokens[opening + 1 : close])
            if name.casefold() not in known:
                del partner[opening]


def _with_shortcuts(content: Content, known: frozenset[str]) -> Content:
    """Return content in which a link that is named by its text stands for a word, since its name must not change."""
    ends = {item.pair: index for index, item in enumerate(content) if isinstance(item, Tag) and item.kind == "close"}
    items: list[Item] = []
    number = 0
    while number < len(content):
        item = content[number]
        end = number
        if isinstance(item, Tag) and item.kind == "open" and item.markup == "[":
            end = ends[item.pair]
            if content[end].markup in ("]", "][]"):  # type: ignore[union-attr]
                raw = "".join(part if isinstance(part, str) else part.markup for part in content[number : end + 1])
                items.append(Tag("word", raw, item.pair))
                number = end + 1
                continue
        items.append(item)
        number += 1
    return tuple(items)
