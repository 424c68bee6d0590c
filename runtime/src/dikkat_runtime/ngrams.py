"""The rows of a table that tokens and pairs of neighbouring tokens have by their hash, for numpy and torch alike."""

from __future__ import annotations

from typing import Any, TypeVar

Ids = TypeVar("Ids", bound=Any)

NGRAM_SCALE = 0.1
"""Factor of the sum over a text: its tokens and pairs are not independent, so that each counts for less than it says.
"""
FIRST_FACTOR, SECOND_FACTOR, PRIME = 461_845_907, 374_761_393, (1 << 31) - 1
"""Numbers of the hash. With these factors, those of MurmurHash3 and xxHash32, sums of two ids below 2**22 are exact in
float64, as JavaScript has them."""


def token_rows(ids: Ids, rows: int) -> Ids:
    """Compute the row below `rows` of every token: a universal hash of its id (Carter and Wegman 1979)."""
    hashed: Ids = ids * FIRST_FACTOR % PRIME % rows
    return hashed


def pair_rows(ids: Ids, rows: int) -> Ids:
    """Compute from ids (B, S) the rows (B, S - 1) of every token with the one after it."""
    hashed: Ids = (ids[:, :-1] * FIRST_FACTOR + (ids[:, 1:] + 1) * SECOND_FACTOR) % PRIME % rows
    return hashed
