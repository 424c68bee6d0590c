"""A constraint that an output has given words a given number of times, each in one of several spellings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from dikkat_runtime.engine.constraints import Constraint, Tokens
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.text.suffixes import are_suffixes, begins_suffixes
from dikkat_runtime.text.vocabulary_bytes import Ids, VocabularyBytes

AnswerT = TypeVar("AnswerT")
Where = Literal["anywhere", "after a sign", "at the start"]
_WHERE: tuple[Where, ...] = ("anywhere", "after a sign", "at the start")
_MIN_MASS = 1e-3
"""Share of attention below which the model attends elsewhere."""
_WEIGHT = 8
"""Progress of a written word, in tokens; a word that is being written counts less."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a word, and where it may begin."""

    tokens: tuple[int, ...]
    where: Where = "anywhere"


@dataclass(frozen=True, slots=True)
class Demand:
    """A word to write exactly `count` times, each in any of its spellings."""

    spellings: tuple[Spelling, ...]
    count: int = 1
    positions: tuple[int, ...] = ()
    """Token positions of its source term."""


class TermState(NamedTuple):
    """The state of the demands of a hypothesis."""

    left: tuple[int, ...]
    """The number of times that each word is still demanded."""
    node: int = 0
    """Index in the tree of all spellings of the partial word at the end; 0 is none."""
    stem: bool = False
    """True if the last word is one of those demanded, with nothing but `suffix` after it."""
    suffix: bytes = b""
    openings: int = 2
    """The number of kinds of spellings that may begin now next to those that may begin anywhere."""


@dataclass(slots=True)
class _Node:
    children: dict[int, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    """Numbers of the words that are complete here."""
    reaches: set[int] = field(default_factory=set)
    """Numbers of the words that may still come of it."""
    depth: int = 0


class WordBorders:
    """The tokens that may stand after a demanded word, in one vocabulary."""

    def __init__(self, vocabulary: VocabularyBytes, *, suffixes: bool) -> None:
        """With `suffixes` Turkish suffixes may follow a word, else nothing that continues it."""
        self.vocabulary = vocabulary
        self._takes_suffixes = suffixes
        self._wrong: dict[bytes, Ids] = {}

    def invalid_continuations(self, suffix: bytes) -> Ids:
        """Return the tokens that cannot follow a word and its `suffix`."""
        if not self._takes_suffixes:
            return self.vocabulary.begins_in_word
        if suffix not in self._wrong:
            inside = self.vocabulary.begins_in_word.tolist()
            # the last bytes may be a part of a letter
            texts = ((suffix + self.vocabulary.tokens[number]).decode("utf-8", "ignore") for number in inside)
            wrong = [number for number, text in zip(inside, texts, strict=True) if not begins_suffixes(text)]
            if not _is_whole(suffix):
                wrong += [EOS_ID, *self.vocabulary.begins_outside_word.tolist()]
            self._wrong[suffix] = np.array(wrong, np.int64)
        return self._wrong[suffix]


def _remembered(question: Callable[["Terms", TermState], AnswerT]) -> Callable[["Terms", TermState], AnswerT]:
    """Return a method that computes its answer once for each state."""

    @wraps(question)
    def answer(terms: "Terms", state: TermState) -> AnswerT:
        key = question.__name__, state
        if key not in terms._known:
            terms._known[key] = question(terms, state)
        known: AnswerT = terms._known[key]
        return known

    return answer


@dataclass(frozen=True)
class Terms(Constraint):
    """A constraint that an output has each demanded word exactly as often as demanded."""

    borders: WordBorders
    demands: tuple[Demand, ...]

    @property
    def start(self) -> TermState:
        """The state in which every word is demanded."""
        return TermState(tuple(demand.count for demand in self.demands))

    def after(self, state: TermState, token: int) -> TermState:
        nodes, roots = self._tree
        node = nodes[state.node].children.get(token) if state.node else None
        if node is None:
            node = next((roots[at].children[token] for at in self._open(state) if token in roots[at].children), 0)
        openings = int(self.borders.vocabulary.opens(token))
        complete = [number for number in nodes[node].ends if state.left[number]] if node else []
        if complete:
            left = tuple(count - (number == complete[0]) for number, count in enumerate(state.left))
            return TermState(left, node, True, b"", openings)
        if state.stem and token in self._inside:
            return TermState(state.left, node, True, state.suffix + self.borders.vocabulary.tokens[token], openings)
        return TermState(state.left, node, False, b"", openings)

    @_remembered
    def banned(self, state: TermState) -> Tokens:
        """Return the tokens that would write a word too often, and those that cannot stand after a stem."""
        nodes, roots = self._tree
        following = [nodes[state.node]] if state.node else []
        following += [roots[at] for at in self._open(state)]
        too_often = [
            token
            for partial in following
            for token, node in partial.children.items()
            if nodes[node].ends and not any(state.left[number] for number in nodes[node].ends)
        ]
        if not state.stem:
            return too_often
        going_on = list(nodes[state.node].children) if state.node else []
        wrong = self.borders.invalid_continuations(state.suffix)
        return np.union1d(np.setdiff1d(wrong, going_on), np.array(too_often, np.int64))

    @_remembered
    def wanted(self, state: TermState) -> Sequence[int]:
        """Return the next tokens of a word that is begun, else the first ones of those that are demanded."""
        nodes, roots = self._tree
        if begun := self._leading(nodes[state.node], state) if state.node else []:
            return begun
        return [token for at in self._open(state) for token in self._leading(roots[at], state)]

    @property
    def reads_attention(self) -> bool:
        """True if the source positions of any word are known."""
        return any(demand.positions for demand in self.demands)

    def placement_score(self, state: TermState, token: int, scores: Array, attention: Array | None) -> float:
        """Return the attention on the source of a word times its share of all spellings.

        Inside a word, the share alone.
        """
        nodes, roots = self._tree
        if state.node and token in (begun := self._leading(nodes[state.node], state)):
            return _share(scores, token, begun)
        best = -math.inf
        for where in self._open(state):
            child = roots[where].children.get(token)
            for number in (*nodes[child].ends, *nodes[child].reaches) if child is not None else ():
                if not state.left[number]:
                    continue
                firsts = {spelling.tokens[0] for spelling in self.demands[number].spellings}
                positions = list(self.demands[number].positions)
                mass = 1.0 if attention is None or not positions else float(attention[positions].sum())
                best = max(best, math.log(max(mass, _MIN_MASS)) + _share(scores, token, list(firsts)))
        return best

    @_remembered
    def progress(self, state: TermState) -> int:
        """Return the weight of the words that are written, and the tokens of the one that is being written."""
        there = sum(demand.count for demand in self.demands) - sum(state.left)
        return _WEIGHT * there + min(self._begun(state), _WEIGHT - 1)

    @_remembered
    def missing(self, state: TermState) -> int:
        """Return the tokens of the shortest spellings of the missing words."""
        if not any(state.left):
            return 0
        shortest = sum(count * size for count, size in zip(state.left, self._shortest, strict=True))
        return max(1, shortest - self._begun(state))

    @property
    def extra_rows(self) -> int:
        """Two rows for each word: one that is writing it, and one that has written it."""
        return 2 * sum(demand.count for demand in self.demands)

    def _begun(self, state: TermState) -> int:
        node = self._tree[0][state.node]
        return node.depth if state.node and any(state.left[number] for number in node.reaches) else 0

    def _leading(self, node: _Node, state: TermState) -> list[int]:
        nodes = self._tree[0]
        return [
            token
            for token, child in node.children.items()
            if any(state.left[number] for number in (*nodes[child].reaches, *nodes[child].ends))
        ]

    def _open(self, state: TermState) -> tuple[Where, ...]:
        """Return the kinds of spellings that may begin now."""
        return _WHERE[: 1 + state.openings]

    @cached_property
    def _known(self) -> dict[tuple[str, TermState], Any]:
        """The answers by question and state: few states come again and again."""
        return {}

    @cached_property
    def _shortest(self) -> tuple[int, ...]:
        return tuple(min(len(spelling.tokens) for spelling in demand.spellings) for demand in self.demands)

    @cached_property
    def _tree(self) -> tuple[list[_Node], dict[Where, _Node]]:
        """All nodes, the first of which stands for no word, and the roots."""
        nodes, roots = [_Node()], {where: _Node() for where in _WHERE}
        for number, demand in enumerate(self.demands):
            for spelling in demand.spellings:
                node = roots[spelling.where]
                for depth, token in enumerate(spelling.tokens, start=1):
                    if token not in node.children:
                        node.children[token] = len(nodes)
                        nodes.append(_Node(depth=depth))
                    node = nodes[node.children[token]]
                    if depth < len(spelling.tokens):
                        node.reaches.add(number)
                node.ends.append(number)
        return nodes, roots

    @cached_property
    def _inside(self) -> frozenset[int]:
        return frozenset(self.borders.vocabulary.begins_in_word.tolist())


def _share(scores: Array, token: int, tokens: Sequence[int]) -> float:
    """Return the logarithm of the share of a token in the probability of `tokens`."""
    if len(tokens) == 1:
        return 0.0
    several = scores[list(tokens)]
    largest = float(several.max())
    return float(scores[token]) - largest - math.log(float(np.exp(several - largest).sum()))


def _is_whole(raw: bytes) -> bool:
    try:
        return are_suffixes(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return False
