"""Prepare a segment for a model: its text without tags, cut into sentences, and the positions of the tags."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dikkat_runtime.documents.alignment import Span
from dikkat_runtime.documents.placement import Mark
from dikkat_runtime.documents.segments import Content, Item, Tag, tagged
from dikkat_runtime.text.normalizing import DIGIT_GROUP

WORD = "\ue000"
"""The character in a text that stands for a tag of the kind `word`."""
_OPENERS = frozenset("([{'\"«“‘-–/¿¡")
_SPACE = re.compile(rf"\s{{2,}}|(?!{DIGIT_GROUP})[^\S ]")
"""White space that stays as it is: all but single spaces, and those inside a number."""
_SEPARATORS = frozenset("\x0b\x0c\x85\u2028\u2029")
MAX_WHOLE_LENGTH = 400
"""Characters of a text without tags that a model reads whole; of longer ones, sentences, so that others get a turn."""
SplitSentences = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The part of a segment between the tags and white space at its edges, which stay as they are."""

    before: Content
    after: Content
    text: str
    """The text with `WORD` for each of the `words`, and one space for white space or a tag between words."""
    words: tuple[Tag, ...]
    marks: tuple[Mark, ...]
    """All other tags."""
    sentences: tuple[Span, ...]

    @classmethod
    def of(cls, content: Content, split: SplitSentences) -> "Paragraph":
        """Read a segment, whose pairs must be nested; `split` cuts a text with tags, or a long one, into sentences."""
        before, core, after = _without_edges(content)
        text, words, marks = _marked(core)
        if not marks and not words and len(text) <= MAX_WHOLE_LENGTH:
            return cls(before, after, text, words, marks, ((0, len(text)),) if text else ())
        ends = (mark for mark in marks if mark.tag.ends_sentence)
        borders = [0, *(mark.position for mark in ends if not _goes_on(text, mark)), len(text)]
        spans: list[Span] = []
        for start, end in pairwise(borders):
            position = start
            for sentence in split(text[start:end]):
                position = text.index(sentence, position)
                spans.append((position, position + len(sentence)))
                position += len(sentence)
        return cls(before, after, text, words, marks, tuple(spans))


def _goes_on(text: str, mark: Mark) -> bool:
    """Return whether a sentence goes on after a line break in it: no full stop before it, a small letter after it."""
    position = mark.position
    before, after = text[max(position - 2, 0) : position].rstrip()[-1:], text[position : position + 2].lstrip()[:1]
    # an element such as <br>; lines of plain characters are broken on purpose
    return mark.tag.markup[:1] == "<" and before.isalnum() and after.islower()


def _without_edges(content: Content) -> tuple[Content, Content, Content]:
    """Return white space, lone tags and pairs at both edges, and the rest between them."""
    core: deque[Item] = deque(content)
    before: list[Item] = []
    after: list[Item] = []
    changed = True
    while changed and core:
        changed = False
        first, last = core[0], core[-1]
        if isinstance(first, str):
            if (stripped := first.lstrip()) != first:
                before.append(first[: len(first) - len(stripped)])
                core.popleft()
                core.extendleft([stripped] if stripped else [])
                changed = True
        elif first.kind == "void":
            before.append(core.popleft())
            changed = True
        elif first.kind == "open" and isinstance(last, Tag) and last.kind == "close" and last.pair == first.pair:
            before.append(core.popleft())
            after.append(core.pop())
            changed = True
        if not changed and core:
            last = core[-1]
            if isinstance(last, str) and (stripped := last.rstrip()) != last:
                after.append(last[len(stripped) :])
                core.pop()
                core.extend([stripped] if stripped else [])
                changed = True
            elif isinstance(last, Tag) and last.kind == "void":
                after.append(core.pop())
                changed = True
    return tuple(before), tuple(core), tuple(reversed(after))


def _marked(core: Content) -> tuple[str, tuple[Tag, ...], tuple[Mark, ...]]:
    items = _with_breaks(core)
    parts, length, last = list[str](), 0, ""
    words: list[Tag] = []
    marks: list[Mark] = []
    gap = 0
    for number, item in enumerate(items):
        gap += not item.isspace() if isinstance(item, str) else item.kind == "word"
        added = ""
        if isinstance(item, str):
            added = item.lstrip() if last == " " else item
        elif item.kind == "word":
            words.append(item)
            added = WORD
        elif item.kind == "void":
            before, after = _neighbours(items, number, -1), _neighbours(items, number, 1)
            parts_words = after[:1].isalnum() and last not in _OPENERS
            is_added = (parts_words or item.parts_words or item.ends_sentence) and last != " "
            added = " " if is_added else ""
            joins = is_added and length > 0
            position = length + len(added)
            marks.append(Mark(position, item, before[-1:].isspace(), after[:1].isspace(), joins, gap))
        else:
            before, after = _neighbours(items, number, -1), _neighbours(items, number, 1)
            position = length - (item.kind == "close" and last == " ")
            marks.append(Mark(position, item, before[-1:] == " ", after[:1] == " ", gap=gap))
        parts.append(added)
        length += len(added)
        last = added[-1:] or last
    return "".join(parts), tuple(words), tuple(marks)


def _neighbours(items: Sequence[Item], number: int, step: int) -> str:
    other = number + step
    return item if 0 <= other < len(items) and isinstance(item := items[other], str) else ""


def _with_breaks(core: Content) -> list[Item]:
    """Return content with white space of more than one space as a tag of its own, so that lines stay lines."""

    def tag(space: re.Match[str]) -> Tag:
        ends = space[0].count("\n") > 1 or not _SEPARATORS.isdisjoint(space[0])
        return Tag("void", space[0], ends_sentence=ends, is_text=True)

    return tagged(core, _SPACE, tag)
