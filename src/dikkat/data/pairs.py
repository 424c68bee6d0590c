"""One aligned pair of texts: what every reader yields and everything after it works on."""

from collections.abc import Callable
from typing import NamedTuple


class Pair(NamedTuple):
    """Hold a source text, its translation, and its line: 1-based in its file, or a running number."""

    source: str
    target: str
    line: int
    link: tuple[int, int] | None = None
    """A word of the source that should attend to another one, and that one, both counted from 0; see `data.links`."""


def lines_of(name: str) -> Callable[[int], int]:
    """Line numbers that say, written out, of which file they are: `12 of more.po`."""

    class Line(int):
        __slots__ = ()

        def __str__(self) -> str:
            return f"{int(self)} of {name}"

    return Line
