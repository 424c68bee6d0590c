"""Blocks of pairs whose targets answer sources some lines before or behind: one line was lost, another is too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dikkat.data.alignment import Scores, Sketches, agreement, length_ratio

MOST_LINES = 4
"""How far a block may be shifted."""
SHORTEST = 8
"""Pairs of the shortest block that is told from chance."""
_LEAST_GAIN = 12.0
"""Score by which a block must fit better with the shift than without."""
_COST = 0.35
"""What the shift must gain a pair, so that pairs that are as good without it end a block."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Pairs `first` up to `last` (0-based, exclusive), whose targets answer the source `lines` further on."""

    first: int
    last: int
    lines: int


def find_shifts(sources: Sketches, targets: Sketches) -> list[Shift]:
    """The shifted blocks of pairs, in their order."""
    count = len(sources.lengths)
    if count < SHORTEST:
        return []
    centre = float(np.median(length_ratio(sources, targets)))
    here = agreement(sources, targets, centre)
    shifts: list[Shift] = []
    for lines in range(-MOST_LINES, MOST_LINES + 1):
        if lines and abs(lines) < count:
            gains = _gains(sources, targets, here, lines, centre)
            shifts += [Shift(first, last, lines) for first, last in _blocks(gains)]
    return _apart(shifts)


def _gains(sources: Sketches, targets: Sketches, here: Scores, lines: int, centre: float) -> Scores:
    """For each target how much better the source `lines` further on fits it than its own."""
    count = len(here)
    first, last = max(0, -lines), min(count, count - lines)
    shifted = agreement(sources.cut(first + lines, last - first), targets.cut(first, last - first), centre)
    gains = np.full(count, -1.0)
    gains[first:last] = shifted - here[first:last] - _COST
    return gains


def _blocks(gains: Scores) -> Iterator[tuple[int, int]]:
    """Runs that gain most in all (Kadane), far enough from chance, none of which holds a better one."""
    window = np.convolve(gains, np.ones(SHORTEST), "same")
    candidates = np.flatnonzero(window > _LEAST_GAIN / 2)
    if not len(candidates):
        return
    breaks = np.flatnonzero(np.diff(candidates) > 4 * SHORTEST)
    starts = [candidates[0], *candidates[breaks + 1]]
    ends = [*candidates[breaks], candidates[-1]]
    for start, end in zip(starts, ends, strict=True):
        low, high = max(0, start - 2 * SHORTEST), min(len(gains), end + 2 * SHORTEST)
        first, last, total = _best_run(gains[low:high])
        if total >= _LEAST_GAIN and last - first >= SHORTEST:
            yield int(low + first), int(low + last)


def _best_run(gains: NDArray[np.float64]) -> tuple[int, int, float]:
    sums = np.concatenate(([0.0], np.cumsum(gains)))
    lowest = np.minimum.accumulate(sums)
    last = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: last + 1]))
    return first, last, float(sums[last] - sums[first])


def _apart(shifts: list[Shift]) -> list[Shift]:
    """Of blocks that overlap the longer one."""
    chosen: list[Shift] = []
    for shift in sorted(shifts, key=lambda shift: shift.first - shift.last):
        if all(shift.last <= other.first or shift.first >= other.last for other in chosen):
            chosen.append(shift)
    return sorted(chosen, key=lambda shift: shift.first)
