"""Find which runs of `*`, `_` and `~` in a text of Markdown emphasize what.

Source: CommonMark 0.31, section 6.2; strikethrough as in GitHub's dialect.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from dikkat_runtime.documents.segments import Tag

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
