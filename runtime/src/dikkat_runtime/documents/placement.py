"""Tags of a source placed in its translation by attention, each exactly once, pairs nested by construction.

A pair takes the run of target words that gains most: a word counts what it attends to inside the pair minus what it
attends to outside. What stands between two words goes to the border that parts best what attends before from after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.documents.segments import Content, Item, Tag
from dikkat_runtime.documents.words import Span

Weights = NDArray[np.float32]
_FLOOR, _ROUNDS = 0.01, 20
"""What is added to each weight before rows and columns are balanced, and how often they are."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A tag before the character `position` of a text."""

    position: int
    tag: Tag
    space_before: bool = False
    space_after: bool = False


@dataclass
class _Node:
    """A pair with what is in it, or a tag alone; `first` to `last` are words of the source."""

    marks: tuple[Mark, ...]
    first: int
    last: int
    children: list[_Node] = field(default_factory=list)
    span: Span = (0, 0)
    """Words of the target."""


class Alignment:
    """Where each target word looked in the source: one matrix a sentence, which knows nothing of other sentences."""

    def __init__(self, num_targets: int) -> None:
        self._num_targets = num_targets
        self._blocks: list[tuple[int, int, Weights]] = []

    def add(self, first_source: int, first_target: int, weights: Weights) -> None:
        """Weights (T, S) of a sentence whose first words have these numbers; rows sum to one, or are zero."""
        # (T, S) -> (T, S + 1)
        sums = np.pad(weights.cumsum(axis=1), ((0, 0), (1, 0)))
        self._blocks.append((first_source, first_target, sums))

    def mass(self, first: int, last: int) -> Weights:
        """(T,): the share of each target word that lies on the source words `first` to `last`."""
        shares = np.zeros(self._num_targets, np.float32)
        for source, target, sums in self._blocks:
            start, end = (min(max(each - source, 0), sums.shape[1] - 1) for each in (first, last))
            shares[target : target + len(sums)] += sums[:, end] - sums[:, start]
        return shares

    def sides(self, border: int) -> Weights:
        """(T,): what of each target word lies before the border of two source words minus what lies behind it.

        The nearer a source word is to the border, the more it counts.
        """
        balance = np.zeros(self._num_targets, np.float32)
        for source, target, sums in self._blocks:
            distances = np.arange(sums.shape[1] - 1) + source - border
            signs = np.where(distances < 0, 1.0 / -np.minimum(distances, -1), -1.0 / (1 + np.maximum(distances, 0)))
            balance[target : target + len(sums)] = np.diff(sums, axis=1) @ signs.astype(np.float32)
        return balance


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, and which of them are signs."""

    spans: Sequence[Span]
    are_signs: Sequence[bool]


class Placement:
    """A text and its translation `target`, whose words are aligned."""

    def __init__(self, sources: Words, target: str, targets: Words, alignment: Alignment) -> None:
        self._sources, self._source_signs = sources.spans, np.array(sources.are_signs, bool)
        self._target, self._targets, self._signs = target, targets.spans, np.array(targets.are_signs, bool)
        self._alignment = alignment
        self.is_exact = True
        """Whether every pair found words of its own."""

    def place(self, marks: Sequence[Mark]) -> Content:
        """The translation with the tags in it."""
        root = _Node((), 0, len(self._sources), span=(0, len(self._targets)))
        self._read(root, iter(marks))
        self._settle(root)
        return self._written(root)

    def _read(self, parent: _Node, marks: Iterator[Mark]) -> Mark | None:
        """What stands inside `parent`, up to the mark that closes it."""
        for mark in marks:
            if mark.tag.kind == "close":
                return mark
            border = sum(start < mark.position for start, _ in self._sources)
            node = _Node((mark,), border, border)
            if mark.tag.kind == "open":
                close = self._read(node, marks)
                if close is None:
                    raise ValueError("a pair is not closed")
                node.marks = (mark, close)
                inside = [
                    number
                    for number, (start, end) in enumerate(self._sources)
                    if end > mark.position and start < close.position
                ]
                if inside:
                    node.first, node.last = inside[0], inside[-1] + 1
            parent.children.append(node)
        return None

    def _settle(self, parent: _Node) -> None:
        """Give each of the children its words, inside those of `parent`."""
        low, high = parent.span
        free = np.zeros(len(self._targets), bool)
        free[low:high] = True
        pairs = [node for node in parent.children if node.last > node.first]
        ranked = sorted(pairs, key=lambda node: -_best_run(self._gains(node), free)[1])
        for node in ranked:
            span, gain = _best_run(self._gains(node), free)
            if gain <= 0:
                span = self._nearest_word(node, free, low)
            node.span = self._with_signs(node, span, free)
            free[slice(*node.span)] = False
        for node in parent.children:
            if node.last == node.first:
                node.span = self._border(node, parent)
            if node.children:
                self._settle(node)

    def _gains(self, node: _Node) -> Weights:
        inside = self._alignment.mass(node.first, node.last)
        all_of_it = self._alignment.mass(0, len(self._sources))
        # a sign goes with its neighbours, unless signs are all there is
        signs = self._signs & ~self._source_signs[node.first : node.last].all()
        return np.where(signs, np.float32(0), 2 * inside - all_of_it)

    def _nearest_word(self, node: _Node, free: NDArray[np.bool_], low: int) -> Span:
        """The free word that attends most to a pair to which no word attends first of all; no word if none is free."""
        usable = free & ~self._signs if (free & ~self._signs).any() else free
        self.is_exact = self.is_exact and bool(usable.any())
        if not usable.any():
            return (low, low)
        shares = np.where(usable, self._alignment.mass(node.first, node.last), -1)
        # where nothing attends to it at all, the word at the same share of the text
        share = (node.first + node.last) / 2 / len(self._sources) * len(shares) - 0.5
        nearness = -np.abs(np.arange(len(shares)) - share)
        word = int(np.lexsort((nearness, shares))[-1])
        self.is_exact = self.is_exact and bool(shares[word] > 0)
        return word, word + 1

    def _with_signs(self, node: _Node, span: Span, free: NDArray[np.bool_]) -> Span:
        """The span with as many signs around it as the source has at the edges of the pair."""
        start, end = span
        signs = self._source_signs[node.first : node.last].tolist()
        if start == end or all(signs):
            return span
        for _ in range(signs.index(False)):
            if start > 0 and free[start - 1] and self._signs[start - 1]:
                start -= 1
        for _ in range(signs[::-1].index(False)):
            if end < len(free) and free[end] and self._signs[end]:
                end += 1
        return start, end

    def _border(self, node: _Node, parent: _Node) -> Span:
        """Between which two words a tag goes that has no words of its own."""
        low, high = parent.span
        balance = np.where(self._signs, 0, self._alignment.sides(node.first))
        gains = np.concatenate([[0.0], balance[low:high].cumsum()])
        for other in parent.children:
            if other.last > other.first:
                gains[other.span[0] + 1 - low : other.span[1] - low] = -np.inf
        border = low + int(gains.argmax())
        # as many signs before it as in the source: no full stop is cut off
        signs = self._source_signs[: node.first].tolist()[::-1]
        for _ in range([*signs, False].index(False)):
            if border < high and self._signs[border] and np.isfinite(gains[border + 1 - low]):
                border += 1
        return border, border

    def _written(self, root: _Node) -> Content:
        tags: list[list[Mark]] = [[] for _ in range(len(self._targets) + 1)]

        def walk(node: _Node) -> None:
            for child in sorted(node.children, key=lambda each: (each.span, each.first)):
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
            items += _in_gap(self._target[position:start], marks, border in (0, len(self._targets)))
            if border < len(self._targets):
                position = self._targets[border][1]
                items.append(self._target[start:position])
        return _joined(items)


def _in_gap(gap: str, marks: list[Mark], at_edge: bool) -> list[Item]:
    """What stands between two words: first what closes, last what opens."""
    first, last = 0, len(marks)
    while first < last and marks[first].tag.kind == "close":
        first += 1
    while last > first and marks[last - 1].tag.kind == "open":
        last -= 1
    if first < last:
        closes, opens = marks[:first], marks[last:]
        return [
            *(mark.tag for mark in closes),
            *_parted(gap, marks[first:last], at_edge),
            *(mark.tag for mark in opens),
        ]
    tight, spaced = _by_space(marks[:first], marks[first:], gap)
    return [*(mark.tag for mark in tight), gap, *(mark.tag for mark in spaced)]


def _by_space(closes: list[Mark], opens: list[Mark], gap: str) -> tuple[list[Mark], list[Mark]]:
    """Tags before and behind the space between two words: outside of their pair, unless the source has it inside."""
    late = next((number for number, mark in enumerate(closes) if mark.space_before), len(closes))
    early = next((number + 1 for number, mark in reversed([*enumerate(opens)]) if mark.space_after), 0)
    if not gap.isspace() or (late < len(closes) and early):
        late, early = len(closes), 0
    return [*closes[:late], *opens[:early]], [*closes[late:], *opens[early:]]


def _flat(node: _Node) -> list[Mark]:
    """A node whose words are none, with all that is in it."""
    inside = [mark for child in node.children for mark in _flat(child)]
    return [node.marks[0], *inside, *node.marks[1:]]


def _parted(gap: str, marks: Sequence[Mark], at_edge: bool) -> list[Item]:
    """Tags between two words, with the spaces that they had in the source."""
    items: list[Item] = [] if gap.isspace() or at_edge else [gap]
    spaced = at_edge
    for mark in marks:
        if mark.space_before and not spaced:
            items.append(" ")
        items.append(mark.tag)
        spaced = mark.space_after
        if spaced:
            items.append(" ")
    return items


def _joined(items: Sequence[Item]) -> Content:
    """Neighbouring texts in one."""
    joined: list[Item] = []
    for item in items:
        if isinstance(item, str) and joined and isinstance(joined[-1], str):
            joined[-1] += item
        elif item != "":
            joined.append(item)
    return tuple(joined)


def balanced(weights: Weights, are_signs: Sequence[bool], source_signs: Sequence[bool]) -> Weights:
    """(T, S) with rows that sum to one, in which each source word gets as much as any other (Sinkhorn 1967).

    So an article goes with the article, though attention rests on the noun. Signs look at signs alone.
    """
    signs, sources = np.array(are_signs, bool), np.array(source_signs, bool)
    result = np.zeros_like(weights)
    for rows, columns in ((~signs, ~sources), (signs, sources)):
        # (T', S')
        part = weights[np.ix_(rows, columns)].astype(np.float64) + _FLOOR
        if not part.size:
            continue
        for _ in range(_ROUNDS):
            part *= part.shape[0] / part.shape[1] / part.sum(axis=0, keepdims=True)
            part /= part.sum(axis=1, keepdims=True)
        result[np.ix_(rows, columns)] = part
    return result


def _best_run(gains: Weights, free: NDArray[np.bool_]) -> tuple[Span, float]:
    """The shortest run of free words that gains most (Bentley 1984), and what it gains."""
    best, best_gain = (0, 0), 0.0
    start, total = 0, 0.0
    for number, (gain, is_free) in enumerate(zip(gains.tolist(), free.tolist(), strict=True)):
        if not is_free or total + gain <= 0:
            start, total = number + 1, 0.0
            continue
        if total <= 0:
            start = number
        total += gain
        if total > best_gain + 1e-6:
            best, best_gain = (start, number + 1), total
    return best, best_gain
