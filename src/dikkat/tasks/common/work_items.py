"""Long work in pieces, numbered for whoever watches."""

from __future__ import annotations

from collections.abc import Callable

Watch = Callable[[int, int, str], None]
"""Hears, before each piece of work, how many are done, how many there are, and what comes now."""


class PieceCounter:
    """Numbers the pieces of work."""

    def __init__(self, pieces: int, watch: Watch) -> None:
        self.done, self.pieces, self.watch = 0, pieces, watch

    def __call__(self, what: str) -> None:
        self.watch(self.done, self.pieces, what)
        self.done += 1
