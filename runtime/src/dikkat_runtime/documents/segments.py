"""The model of a segment that all formats share: text, the tags inside it, and the edits of its translation."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Kind = Literal["open", "close", "void", "word"]


@dataclass(frozen=True, slots=True)
class Tag:
    """Markup inside a text, which a translation must hold exactly once."""

    kind: Kind
    """`open` and `close` are a pair, `void` stands between two words, `word` stands for a word."""
    markup: str
    """The markup as it stands in the file."""
    pair: int = 0
    """The same for the two of a pair."""
    ends_sentence: bool = False
    """True if no sentence continues after it."""
    is_text: bool = False
    """True if the markup is text, which a format escapes like other text."""
    parts_text: bool = False
    """True if what stands before it and what stands after it are texts of their own, in this order."""
    start: int = -1
    """Where its markup begins in the file, if texts of their own may stand in it, which move with it; else -1."""

    @property
    def parts_words(self) -> bool:
        """True if it is white space, or a line break with the marks that begin the next line."""
        return self.markup.lstrip("\\")[:1].isspace()


Item: TypeAlias = str | Tag
Content: TypeAlias = tuple[Item, ...]
"""Text without any escaping, and tags, in their order."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a reader, apart from the file."""

    source_language: str = ""
    target_language: str = ""
    """The languages as the model names them; empty where it names none."""
    source_column: str | None = None
    target_column: str | None = None
    """Columns of tables: names or numbers from 1."""
    ignored_elements: frozenset[str] = frozenset()
    """Elements of HTML, in small letters, that are not translated, besides those that no page wants translated."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the characters `start` to `end` of a file by `text`."""

    start: int
    end: int
    text: str


Edits = Callable[[Content], Iterable[Edit]]
"""Returns the edits of a file for a translation."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One text to translate."""

    content: Content
    edits: Edits
    line: int
    """Line of the text, from 1, for messages."""
    start: int = -1
    """Where it begins in a file whose texts may stand inside tags of others."""


class Document(Protocol):
    """A document with its segments and with notes on the rest."""

    segments: Sequence[Segment]
    remarks: Counter[str]
    """Counts of parts that were skipped or repaired."""
    markup: bool
    """True if tags may stand in the texts themselves."""

    def write(self, translations: Sequence[Content]) -> bytes:
        """Return the file with one translation for each segment."""


class OverlapError(Exception):
    """Two edits change the same characters, from `position` on."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def splice(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with all `edits`, of which equal ones count once. Raises `OverlapError` where two overlap."""
    parts: list[str] = []
    position = 0
    for edit in sorted(dict.fromkeys(edits), key=lambda entry: (entry.start, entry.end)):
        if edit.start < position:
            raise OverlapError(edit.start)
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def edits_of(segments: Sequence[Segment], translations: Sequence[Content]) -> list[Edit]:
    """Return the edits of a file for translations of its segments.

    Those of a text inside a tag of another text are made in the tag, wherever it goes.
    """
    order = list(range(len(segments)))
    if any(tag.start >= 0 for segment in segments for tag in tags_of(segment.content)):
        order.sort(key=lambda number: segments[number].start, reverse=True)
    else:
        order.reverse()
    waiting, outside = list[Edit](), list[Edit]()
    for number in order:
        content, renewed = translations[number], dict[Item, Tag]()
        for tag in tags_of(segments[number].content):
            inside: list[Edit] = []
            while tag.start >= 0 and waiting and waiting[-1].end <= tag.start + len(tag.markup):
                edit = waiting.pop()
                (inside if edit.start >= tag.start else outside).append(edit)
            shifted = [Edit(edit.start - tag.start, edit.end - tag.start, edit.text) for edit in inside]
            if shifted:
                renewed[tag] = replace(tag, markup=splice(tag.markup, shifted))
        new = segments[number].edits(tuple(renewed.get(item, item) for item in content) if renewed else content)
        waiting += reversed(list(new))
    return [*reversed(waiting), *outside]


def is_language(stated: str, language: str) -> bool:
    """Return whether a stated language is this one, or a variant of it; where either is not known it may be."""
    codes = [code.strip().lower().replace("_", "-").partition("-")[0] for code in (stated, language)]
    return not all(codes) or codes[0] == codes[1]


def plain(content: Content) -> str:
    return "".join(item for item in content if isinstance(item, str))


def render(content: Content, escape: Callable[[str], str]) -> str:
    """Return content as it is written into a file."""
    return "".join(
        escape(item) if isinstance(item, str) else escape(item.markup) if item.is_text else item.markup
        for item in content
    )


def is_unchanged(translation: Content, source: Content) -> bool:
    """Return whether a translation is its source, which then may stay as it is written."""
    return render(translation, str) == render(source, str)


def tagged(content: Iterable[Item], pattern: re.Pattern[str], tag: Callable[[re.Match[str]], Item]) -> list[Item]:
    """Return content in whose texts each match of a pattern is a tag, or another text, without empty texts."""
    items: list[Item] = []
    for item in content:
        if not isinstance(item, str):
            items.append(item)
            continue
        position = 0
        for match in pattern.finditer(item):
            items += [item[position : match.start()], tag(match)]
            position = match.end()
        items.append(item[position:])
    return joined(items)


def joined(items: Iterable[T]) -> list[T]:
    """Return items in which no text is empty, and no two texts are neighbours."""
    parts: list[T] = []
    for is_text, group in groupby(items, lambda item: isinstance(item, str)):
        if not is_text:
            parts += group
        elif text := "".join(group):  # type: ignore[arg-type]
            parts.append(text)  # type: ignore[arg-type]
    return parts


def parted(content: Content, parts: Callable[[Tag], bool]) -> list[Content]:
    """Return the contents between the tags that part them; some may be empty."""
    groups: list[list[Item]] = [[]]
    for item in content:
        if isinstance(item, Tag) and parts(item):
            groups.append([])
        else:
            groups[-1].append(item)
    return [tuple(group) for group in groups]


def stripped(content: Sequence[Item]) -> Content:
    """Return content without white space at its ends."""
    items = list(content)
    for index, strip in ((0, str.lstrip), (-1, str.rstrip)):
        if items and isinstance(item := items[index], str):
            items[index] = strip(item)
    return tuple(joined(items))


def tags_of(content: Content) -> list[Tag]:
    return [item for item in content if isinstance(item, Tag)]


def is_whole(source: Content, target: Content) -> bool:
    """Return whether the target has every tag of the source exactly once, pairs well nested, white space aside."""
    ours, theirs = (
        Counter(tag for tag in tags_of(content) if not tag.markup.isspace()) for content in (source, target)
    )
    if ours != theirs:
        return False
    opened: list[int] = []
    for tag in tags_of(target):
        if tag.kind == "open":
            opened.append(tag.pair)
        elif tag.kind == "close" and (not opened or opened.pop() != tag.pair):
            return False
    return not opened
