"""Find where markup ends in a text that may be full of what never ends, in time linear in the text."""

import re
from collections import Counter
from collections.abc import Iterable

_UNQUOTED = re.compile(r"""[^"'<>]*+""")


def nested_pairs(tags: Iterable[tuple[int, str, bool]]) -> dict[int, int]:
    """Return for the number of each opening tag that of its closing tag; tags of crossing pairs stand alone.

    A tag is its number, its name, and whether it opens.
    """
    partner: dict[int, int] = {}
    opened, counts = list[tuple[int, str]](), Counter[str]()
    for number, name, opens in tags:
        if opens:
            opened.append((number, name))
            counts[name] += 1
        elif counts[name]:
            while (last := opened.pop())[1] != name:
                counts[last[1]] -= 1
            counts[name] -= 1
            partner[last[0]] = number
    return partner


class TagEnds:
    """The ends of the opening tags in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._failed: set[int] = set()
        """Positions outside of quotation marks from which a tag does not end."""

    def find(self, position: int) -> int:
        """Return the position after the tag whose name ends at `position`; -1 where it does not end."""
        visited: list[int] = []
        while position > 0 and position not in self._failed:
            visited.append(position)
            unquoted = _UNQUOTED.match(self._text, position)
            stop = unquoted.end() if unquoted else position
            sign = self._text[stop : stop + 1]
            if sign == ">":
                return stop + 1
            # 0 where the quotation marks do not end, or none begin
            position = self._text.find(sign, stop + 1) + 1 if sign in ('"', "'") else 0
        self._failed.update(visited)
        return -1


class NextEnd:
    """The next end of markup of one kind, asked for at positions that never fall."""

    def __init__(self, text: str, closing: str) -> None:
        self._text, self._closing = text, closing
        self._at = 0

    def find(self, position: int) -> int:
        """Return the position after the next end from `position` on; -1 where there is none."""
        if 0 <= self._at < position + len(self._closing):
            begin = self._text.find(self._closing, position)
            self._at = begin + len(self._closing) if begin >= 0 else -1
        return self._at
