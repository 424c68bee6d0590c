"""Detect a text that repeats itself in a loop."""

from collections import Counter
from collections.abc import Hashable, Sequence

COPIES = 4
"""Adjacent copies of a group of tokens that make a loop."""
MIN_LENGTH = 8
"""Tokens of the shortest loop: a row of zeros or dots is none."""
MAX_GROUP_LENGTH = 12
OFTEN = 3
"""Count of the same three tokens that makes a loop in a text without an end."""


def is_loop(tokens: Sequence[Hashable], finished: bool = True) -> bool:
    """Return whether `tokens` repeat a group over and over, or did not end and return to the same three."""
    if len(tokens) - len(set(tokens)) < COPIES - 1:
        return False
    if any(_has_run(tokens, size) for size in range(1, MAX_GROUP_LENGTH + 1)):
        return True
    trigrams = Counter(() if finished else zip(tokens, tokens[1:], tokens[2:], strict=False))
    return max(trigrams.values(), default=0) >= OFTEN


def _has_run(tokens: Sequence[Hashable], size: int) -> bool:
    """Return whether a group of `size` tokens is followed by itself often enough for a loop."""
    wanted = max(COPIES * size, MIN_LENGTH) - size
    run = 0
    for token, before in zip(tokens[size:], tokens, strict=False):
        run = run + 1 if token == before else 0
        if run >= wanted:
            return True
    return False
