"""One aligned pair of texts: what every reader yields and everything after it works on."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """Hold a source text, its translation, and its line: 1-based in its file, or a running number."""

    source: str
    target: str
    line: int
