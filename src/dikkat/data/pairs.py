"""One aligned pair of texts: what every reader yields and everything after it works on."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source text, its translation, and where it stands: a 1-based line of its file, or a running number."""

    source: str
    target: str
    line: int
