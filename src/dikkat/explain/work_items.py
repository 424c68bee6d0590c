"""Number the parts of long work for whoever watches it."""

from collections.abc import Callable

Watch = Callable[[int, int, str], None]
"""Receives, before each part of the work, how many are done, how many there are, and the name of the next."""


class PieceCounter:
    """Count the parts of long work and report each to `watch`."""

    def __init__(self, pieces: int, watch: Watch) -> None:
        self.done, self.pieces, self.watch = 0, pieces, watch

    def __call__(self, what: str) -> None:
        self.watch(self.done, self.pieces, what)
        self.done += 1
