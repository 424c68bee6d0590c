"""Insert the tags of a source into its translation by attention, each exactly once, pairs nested by construction.

A pair takes the run of target words that gains most: a word counts its attention inside the pair minus that
outside. A tag between two words goes to the border that best separates the attention before it from that after it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.documents.alignment import Alignment, Span, Weights
from dikkat_runtime.documents.segments import Content, Item, Tag, joined, tagged
from dikkat_runtime.tasks.aligner import best_run
from dikkat_runtime.text.normalizing import DIGIT_GROUP

Edge = Literal["none", "start", "end"]
_WIDE = 1 << 12
"""Target words among which a pair to which no word attends looks for any free word."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A tag before the character `position` of a text."""

    position: int
    tag: Tag
    space_before: bool = False
    space_after: bool = False
    """True if the source has a space right next to the tag."""
    joins: bool = False
    """True if the source has no space where the tag parts two words."""
    gap: int = -1
    """The number of the gap between texts of the source that it stands in."""


@dataclass
class _Node:
    """A pair with its content, or a tag alone; `first` to `last` are words of the source."""

    marks: tuple[Mark, ...]
    first: int
    last: int
    children: "list[_Node]" = field(default_factory=list)
    span: Span = (0, 0)
    """The words of the target."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, with a flag for signs."""

    spans: Sequence[Span]
    are_signs: Sequence[bool]


class Placement:
    """A text and its translation `target`, whose words are aligned."""

    def __init__(self, sources: Words, target: str, targets: Words, alignment: Alignment) -> None:
        self._sources, self._source_signs = sources.spans, np.array(sources.are_signs, bool)
        self._target, self._targets, self._signs = target, targets.spans, np.array(targets.are_signs, bool)
        self._starts, self._ends = [start for start, _ in self._sources], [end for _, end in self._sources]
        self._source_tails, self._tails = _num_last_signs(self._source_signs), _num_last_signs(self._signs)
        self._free = np.zeros(len(self._targets), bool)
        """The words that no pair has, where pairs are placed just now."""
        self._alignment = alignment
        self.is_exact = True
        """Whether every pair found words of its own."""

    def insert(self, marks: Sequence[Mark]) -> Content:
        root = _Node((), 0, len(self._sources), span=(0, len(self._targets)))
        self._read(root, iter(marks))
        self._assign_words(root)
        return self._written(root)

    def _read(self, parent: _Node, marks: Iterator[Mark]) -> Mark | None:
        """Read the content of `parent`; return the mark that closes it."""
        for mark in marks:
            if mark.tag.kind == "close":
                return mark
            border = bisect_left(self._starts, mark.position)
            node = _Node((mark,), border, border)
            if mark.tag.kind == "open":
                close = self._read(node, marks)
                if close is None:
                    raise ValueError("a pair is not closed")
                node.marks = (mark, close)
                first = bisect_right(self._ends, mark.position)
                last = bisect_left(self._starts, close.position)
                if first < last:
                    node.first, node.last = first, last
            parent.children.append(node)
        return None

    def _assign_words(self, parent: _Node) -> None:
        low, high = parent.span
        self._free[low:high] = True
        pairs = [node for node in parent.children if node.last > node.first]
        for node in sorted(pairs, key=lambda node: -self._best(node, parent.span)[1]):
            span, gain = self._best(node, parent.span)
            if gain <= 0:
                span = self._nearest_word(node, parent.span)
            node.span = self._with_signs(node, span, parent.span)
            self._free[slice(*node.span)] = False
        taken = np.zeros(high - low + 1, bool)
        for node in pairs:
            taken[max(0, node.span[0] + 1 - low) : max(0, node.span[1] - low)] = True
        borders: dict[tuple[int, bool], int] = {}
        for node in parent.children:
            if node.last == node.first:
                # the other way about in a language of reversed order; but lines stay in order
                is_break = node.marks[0].tag.ends_sentence or node.marks[0].tag.markup.isspace()
                key = node.first, is_break
                if key not in borders:
                    borders[key] = self._border(*key, parent.span, taken)
                node.span = borders[key], borders[key]
            if node.children:
                self._assign_words(node)

    def _gains(self, node: _Node, within: Span) -> tuple[int, Weights]:
        """Return the first word near a pair inside a span, and what each word from there on gains for the pair."""
        first, last = self._alignment.targets(node.first, node.last)
        start, end = (min(max(word, within[0]), within[1]) for word in (first, last))
        return start, self._alignment.gains(node.first, node.last)[start - first : end - first]

    def _best(self, node: _Node, within: Span) -> tuple[Span, float]:
        start, gains = self._gains(node, within)
        end = start + len(gains)
        # a sign goes with its neighbours, unless there are only signs
        signs = self._signs[start:end] & ~self._source_signs[node.first : node.last].all()
        (first, last), gain = best_run(np.where(signs, np.float32(0), gains), self._free[start:end])
        return (start + first, start + last), gain

    def _nearest_word(self, node: _Node, within: Span) -> Span:
        """Return the free word, if any, that attends most to a pair to which no word attends first of all."""
        near, gains = self._gains(node, within)
        start, end = within if within[1] - within[0] <= _WIDE else (near, near + len(gains))
        free, signs = self._free[start:end], self._signs[start:end]
        usable = free & ~signs if (free & ~signs).any() else free
        if not usable.any():
            self.is_exact = False
            return start, start
        shares = np.full(len(usable), -2.0)
        shares[near - start : near - start + len(gains)] = gains
        # if no word attends to it at all, take the word at the same share of the text
        share = (node.first + node.last) / 2 / len(self._sources) * len(self._targets) - 0.5
        (best,) = np.nonzero(usable & (shares == shares[usable].max()))
        word = int(best[::-1][np.abs(best[::-1] + start - share).argmin()])
        self.is_exact = self.is_exact and bool(shares[word] > -1)
        return start + word, start + word + 1

    def _with_signs(self, node: _Node, span: Span, within: Span) -> Span:
        """Return the span with as many signs around it as the source has at the edges of the pair."""
        start, end = span
        signs = self._source_signs[node.first : node.last].tolist()
        if start == end or all(signs):
            return span
        for _ in range(signs.index(False)):
            if start > within[0] and self._free[start - 1] and self._signs[start - 1]:
                start -= 1
        for _ in range(signs[::-1].index(False)):
            if end < within[1] and self._free[end] and self._signs[end]:
                end += 1
        return start, end

    def _border(self, position: int, is_break: bool, within: Span, taken: NDArray[np.bool_]) -> int:
        """Return the border for tags before a source word without own words; those inside a pair are `taken`."""
        start, end = self._alignment.targets(position, position)
        balance = np.where(self._signs[start:end], 0, self._alignment.balance(position))
        low, high = (min(max(word, within[0]), within[1]) for word in (start, end))
        balance = balance[low - start : high - start]
        # how well each border separates the words that attend before the tag from those that attend after it
        gains = 2 * np.concatenate([[0.0], balance.cumsum()]) - balance.sum()
        taken = taken[low - within[0] : high - within[0] + 1]
        gains[taken] = -np.inf
        flipped = np.where(taken, -np.inf, -gains)
        best = flipped if flipped.max() > gains.max() + 1e-6 and not is_break else gains
        border = low + int(best.argmax())
        # as many signs before it as in the source, so that no full stop is cut off
        missing = self._source_tails[position] - self._tails[border]
        while missing > 0 and border < high and self._signs[border] and not taken[border + 1 - low]:
            border, missing = border + 1, missing - 1
        return border

    def _written(self, root: _Node) -> Content:
        tags: list[list[Mark]] = [[] for _ in range(len(self._targets) + 1)]

        def walk(node: _Node) -> None:
            for child in sorted(node.children, key=lambda child_node: (child_node.span, child_node.first)):
                start, end = child.span
                if start == end:
                    tags[start] += _flat(child)
                    continue
                tags[start].append(child.marks[0])
                walk(child)
                tags[end].append(child.marks[1])

        walk(root)
        items: list[Item] = []
        position = 0
        for border, marks in enumerate(tags):
            start = self._targets[border][0] if border < len(self._targets) else len(self._target)
            edge: Edge = "start" if border == 0 else "end" if border == len(self._targets) else "none"
            items += _in_gap(self._target[position:start], marks, edge)
            if border < len(self._targets):
                position = self._targets[border][1]
                items.append(self._target[start:position])
        return tuple(joined(items))


def _in_gap(gap: str, marks: Sequence[Mark], edge: Edge) -> list[Item]:
    """Return the tags between two words with the spaces that the source has next to them; the words stay apart."""
    if not marks:
        return [gap]
    is_apart = gap.isspace() or edge != "none"
    items: list[Item] = [] if is_apart else [gap]
    # nothing is before the text, and nothing is after it
    spaced, spaced_by = edge == "start", -1
    for mark in marks:
        is_read = is_apart or mark.tag.kind in ("void", "word")
        for item in (" " * mark.space_before, mark.tag, " " * mark.space_after):
            if isinstance(item, Tag):
                items.append(item)
                spaced = item.parts_words
            elif item and is_read and not spaced and spaced_by in (-1, mark.gap):
                items.append(item)
                spaced, spaced_by = True, mark.gap
    if edge == "end" and items[-1] == " ":
        items.pop()
    has_space = any(item == " " if isinstance(item, str) else item.parts_words for item in items)
    if gap.isspace() and edge == "none" and not has_space and not any(mark.joins for mark in marks):
        # outside of the pairs
        num_opens = next((number for number, mark in enumerate(reversed(marks)) if mark.tag.kind != "open"), len(marks))
        items.insert(len(items) - num_opens, gap)
    return items


def _flat(node: _Node) -> list[Mark]:
    """Return the tags of a node without words and of all that is in it; one that lost its words has no spaces."""
    inside = [mark for child in node.children for mark in _flat(child)]
    marks = [node.marks[0], *inside, *node.marks[1:]]
    return [Mark(mark.position, mark.tag) for mark in marks] if node.last > node.first else marks


def _num_last_signs(are_signs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each border of words the number of signs right before it, after the last word."""
    borders = np.arange(len(are_signs) + 1)
    return borders - np.maximum.accumulate(np.where(np.append(False, are_signs), 0, borders))


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
    while core:
        first, last = core[0], core[-1]
        if isinstance(first, str) and (stripped := first.lstrip()) != first:
            before.append(first[: len(first) - len(stripped)])
            core.popleft()
            core.extendleft([stripped] if stripped else [])
        elif isinstance(first, Tag) and first.kind == "void":
            before.append(core.popleft())
        elif _are_pair(first, last):
            before.append(core.popleft())
            after.append(core.pop())
        elif isinstance(last, str) and (stripped := last.rstrip()) != last:
            after.append(last[len(stripped) :])
            core.pop()
            core.extend([stripped] if stripped else [])
        elif isinstance(last, Tag) and last.kind == "void":
            after.append(core.pop())
        else:
            break
    return tuple(before), tuple(core), tuple(reversed(after))


def _are_pair(first: Item, last: Item) -> bool:
    if isinstance(first, str) or isinstance(last, str):
        return False
    return first.kind == "open" and last.kind == "close" and first.pair == last.pair


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
