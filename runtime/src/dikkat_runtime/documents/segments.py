"""The model of a segment that all formats share: text, the tags inside it, and where its translation goes in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Kind = Literal["open", "close", "void", "word"]


@dataclass(frozen=True, slots=True)
class Tag:
    """Markup inside a text, which a translation must hold exactly once."""

    kind: Kind
    """`open` and `close` are a pair, `void` stands between two words, `word` stands for a word."""
    markup: str
    """As it stands in the file."""
    pair: int = 0
    """The same for the two of a pair."""
    ends_sentence: bool = False
    """Whether no sentence goes on behind it."""
    is_text: bool = False
    """Whether the markup is text, which a format escapes like other text."""


Item: TypeAlias = str | Tag
Content: TypeAlias = tuple[Item, ...]
"""Text without any escaping, and tags, in their order."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader is told beside the file."""

    source_language: str = ""
    target_language: str = ""
    """Both as the model calls them; empty where it does not say."""
    source_column: str | None = None
    target_column: str | None = None
    """Of tables: names or numbers from 1."""
    ignored_elements: frozenset[str] = frozenset()
    """Of HTML, in small letters: what is not translated, besides what no page wants translated."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` of a file give way to `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One text to translate."""

    content: Content
    edits: Callable[[Content], Iterable[Edit]]
    """From the translation to what changes in the file."""
    line: int
    """Where it stands, from 1; for messages."""


class Document(Protocol):
    """A file that was read: what is to be translated, and what is said of the rest."""

    segments: Sequence[Segment]
    remarks: Counter[str]
    """What was passed over or mended, and how often."""
    markup: bool
    """Whether tags may stand in the texts themselves."""

    def write(self, translations: Sequence[Content]) -> bytes:
        """The file with one translation for each segment."""
        ...


def splice(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits`, of which equal ones count once; they must not overlap."""
    parts: list[str] = []
    position = 0
    for edit in sorted(dict.fromkeys(edits), key=lambda each: (each.start, each.end)):
        if edit.start < position:
            raise ValueError(f"edits overlap at {edit.start}")
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def plain(content: Content) -> str:
    """The text alone."""
    return "".join(item for item in content if isinstance(item, str))


def render(content: Content, escape: Callable[[str], str]) -> str:
    """Content as it is written into a file."""
    return "".join(
        escape(item) if isinstance(item, str) else escape(item.markup) if item.is_text else item.markup
        for item in content
    )


def tags_of(content: Content) -> list[Tag]:
    """The tags alone, in their order."""
    return [item for item in content if isinstance(item, Tag)]


def is_whole(source: Content, target: Content) -> bool:
    """Whether the target holds every tag of the source exactly once, each pair well nested; white space is no tag."""
    ours, theirs = (Counter(tag for tag in tags_of(each) if not tag.markup.isspace()) for each in (source, target))
    if ours != theirs:
        return False
    opened: list[int] = []
    for tag in tags_of(target):
        if tag.kind == "open":
            opened.append(tag.pair)
        elif tag.kind == "close" and (not opened or opened.pop() != tag.pair):
            return False
    return not opened
