"""Find regular expressions that can take more than linear time: a reader of the patterns that `re` has parsed.

Three kinds are found, none of which a possessive repeat or a class without the following character has:
repeats that share characters and stand next to each other, or inside each other, can part a text in many ways; and a
repeat that a search can begin inside of is read again from each of these beginnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Items = Sequence[tuple[Any, Any]]
_PROBES = [*map(chr, range(1, 0x250)), "\u2028", "\u3042", "\u5b57", "\ue000"]
"""Characters by which two classes are compared."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_ONE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_ASSERTS = (sre.ASSERT, sre.ASSERT_NOT)
_MANY = 500
"""A repeat of as many and more is unbounded here."""
Set = frozenset[str]
EVERY: Set = frozenset(_PROBES)
NONE: Set = frozenset()


def problems(pattern: str | bytes, flags: int = 0, *, searches: bool = True) -> list[str]:
    """Return what makes a pattern take more than linear time; `searches` is False where it is only matched."""
    if isinstance(pattern, bytes):
        pattern = pattern.decode("latin-1")
    tree = parser.parse(pattern, flags)
    reader = _Reader(tree.state.flags)
    found = list(reader.sequence(list(tree), False))
    for branch in _branches(list(tree)) if searches else ():
        found += reader.restarts(branch)
    return list(dict.fromkeys(found))


class _Reader:
    def __init__(self, flags: int) -> None:
        self._flags = flags

    def characters(self, operator: Any, argument: Any) -> Set:
        """Return the probes that one item of one character matches."""
        if operator is sre.LITERAL:
            both = {chr(argument), chr(argument).lower(), chr(argument).upper()}
            return frozenset(both if self._flags & re.IGNORECASE else {chr(argument)})
        if operator is sre.NOT_LITERAL:
            return EVERY - {chr(argument)}
        if operator is sre.ANY:
            return EVERY if self._flags & re.DOTALL else EVERY - {"\n"}
        pieces = NONE
        negated = False
        for kind, value in argument:
            if kind is sre.NEGATE:
                negated = True
            elif kind is sre.LITERAL:
                pieces |= self.characters(kind, value)
            elif kind is sre.RANGE:
                pieces |= {probe for probe in EVERY if value[0] <= ord(probe) <= value[1]}
                if not any(value[0] <= ord(probe) <= value[1] for probe in EVERY):
                    pieces |= {chr(value[0])}
            else:
                pieces |= _category(value)
        return EVERY - pieces if negated else pieces

    def first(self, items: Items) -> tuple[Set, bool]:
        """Return the characters that a text of a sequence may begin with, and whether it may be empty."""
        begins = NONE
        for operator, argument in items:
            own, may_be_empty = self._first_of(operator, argument)
            begins |= own
            if not may_be_empty:
                return begins, False
        return begins, True

    def _first_of(self, operator: Any, argument: Any) -> tuple[Set, bool]:
        if operator in _ONE:
            return self.characters(operator, argument), False
        if operator in (*_REPEATS, sre.POSSESSIVE_REPEAT):
            own, may_be_empty = self.first(list(argument[2]))
            return own, may_be_empty or argument[0] == 0
        if operator is sre.SUBPATTERN:
            return self.first(list(argument[3]))
        if operator is sre.ATOMIC_GROUP:
            return self.first(list(argument))
        if operator is sre.BRANCH:
            parts = [self.first(list(branch)) for branch in argument[1]]
            return NONE.union(*(own for own, _ in parts)), any(empty for _, empty in parts)
        if operator is sre.GROUPREF:
            return EVERY, True
        return NONE, True

    def _must_match(self, items: Items) -> bool:
        """Return whether anything in a sequence can fail."""
        checks = (sre.AT, sre.ASSERT, sre.ASSERT_NOT)
        return any(operator in checks or not self._first_of(operator, argument)[1] for operator, argument in items)

    def sequence(self, items: Items, after: bool) -> Iterator[str]:
        """Yield the repeats next to each other, or inside each other, that share characters.

        `after` is True if something after the sequence can fail.
        """
        for number, (operator, argument) in enumerate(items):
            can_fail = after or self._must_match(items[number + 1 :])
            for inner in _inside(operator, argument):
                yield from self.sequence(inner, can_fail)
            if operator in _REPEATS and argument[1] >= _MANY and can_fail:
                begins, _ = self.first(list(argument[2]))
                for ending in self._edges(list(argument[2]), _REPEATS, -1):
                    if ending & begins:
                        yield f"a repeat inside a repeat, which both match {_some(ending & begins)}"
            for ending in self._edges([(operator, argument)], _REPEATS, -1):
                yield from self._beside(ending, items[number + 1 :], after)

    def _beside(self, ending: Set, rest: Items, after: bool) -> Iterator[str]:
        for number, item in enumerate(rest):
            for begin in self._edges([item], (*_REPEATS, sre.POSSESSIVE_REPEAT), 1):
                if ending & begin and (after or self._must_match(rest[number + 1 :])):
                    yield f"a repeat next to a repeat, which both match {_some(ending & begin)}"
            if not self._first_of(*item)[1]:
                return

    def _edges(self, items: Items, repeats: tuple[Any, ...], step: int) -> list[Set]:
        """Return the characters of the unbounded repeats with which a sequence may end (-1) or begin (1)."""
        edges: list[Set] = []
        for operator, argument in items[::step]:
            is_one = operator in repeats and argument[1] >= _MANY and len(argument[2]) == 1
            if is_one and argument[2][0][0] in _ONE:
                edges.append(self.characters(*argument[2][0]))
            elif operator in (*repeats, sre.SUBPATTERN, sre.BRANCH):
                edges += [edge for inner in _inside(operator, argument) for edge in self._edges(inner, repeats, step)]
            if not self._first_of(operator, argument)[1]:
                break
        return edges

    def restarts(self, branch: Items) -> Iterator[str]:
        """Yield the repeats that a search can begin inside of, where something behind them can fail."""
        guard = NONE
        for operator, argument in branch:
            if operator is sre.ASSERT_NOT and argument[0] < 0:
                guard |= self.first(list(argument[1]))[0]
            elif operator not in (sre.ASSERT, sre.AT):
                break
        for repeated, prefix, can_fail in self._walk(branch, [], False):
            if can_fail and not repeated <= guard and all(part & repeated for part in prefix):
                yield f"a search that begins inside its own repeat of {_some(repeated)}"

    def _walk(self, items: Items, prefix: list[Set], after: bool) -> Iterator[tuple[Set, list[Set], bool]]:
        """Yield for each unbounded repeat its characters, those before it, and whether what follows can fail."""
        prefix = list(prefix)
        for number, (operator, argument) in enumerate(items):
            can_fail = after or self._must_match(items[number + 1 :])
            # what is looked at is read again whether it fails or not
            can_fail = can_fail or operator in (sre.ASSERT, sre.ASSERT_NOT)
            if operator in (*_REPEATS, sre.POSSESSIVE_REPEAT) and argument[1] >= _MANY:
                yield self._all(list(argument[2])), prefix, can_fail
            for inner in _inside(operator, argument):
                yield from self._walk(inner, prefix, can_fail)
            if operator is sre.AT and argument in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
                is_line = argument is sre.AT_BEGINNING and self._flags & re.MULTILINE
                prefix.append(frozenset("\n") if is_line else NONE)
            elif operator is sre.ASSERT and argument[0] < 0:
                prefix.append(self.first(list(argument[1]))[0])
            elif not self._first_of(operator, argument)[1]:
                prefix.append(self._first_of(operator, argument)[0])

    def _all(self, items: Items) -> Set:
        """Return all characters that a sequence may match."""
        own = (self.characters(*item) if item[0] in _ONE else NONE for item in items)
        inner = (self._all(inside) for item in items if item[0] not in _ASSERTS for inside in _inside(*item))
        return NONE.union(*own, *inner)


def _branches(items: Items) -> Iterator[Items]:
    """Yield the alternatives that a pattern consists of."""
    if len(items) == 1 and items[0][0] is sre.BRANCH:
        for branch in items[0][1][1]:
            yield from _branches(list(branch))
    elif len(items) == 1 and items[0][0] is sre.SUBPATTERN:
        yield from _branches(list(items[0][1][3]))
    else:
        yield items


def _inside(operator: Any, argument: Any) -> Iterator[Items]:
    if operator in (*_REPEATS, sre.POSSESSIVE_REPEAT):
        yield list(argument[2])
    elif operator is sre.SUBPATTERN:
        yield list(argument[3])
    elif operator is sre.ATOMIC_GROUP:
        yield list(argument)
    elif operator is sre.BRANCH:
        yield from (list(branch) for branch in argument[1])
    elif operator in (sre.ASSERT, sre.ASSERT_NOT):
        yield list(argument[1])


def _category(value: Any) -> Set:
    sign = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
    name = str(value).removeprefix("CATEGORY_")
    matches = re.compile(sign[name.removeprefix("NOT_")]).match
    own = frozenset(probe for probe in EVERY if matches(probe))
    return EVERY - own if name.startswith("NOT_") else own


def _some(characters: Set) -> str:
    return repr("".join(sorted(characters))[:5])
