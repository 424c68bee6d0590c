"""Find where two files of lines stop being aligned, when their line counts differ.

Deleting a line moves every later one by an offset. Each pairing of a source with a target line gets a score from
what translations share (length, numbers, final punctuation, beginnings of words). Offsets run from 0 to the difference
of the counts, and the best path through them that never turns back is found exactly, by dynamic programming on prefix
sums. On captions (multi30k) the answer is within three lines; where neighbours look alike, it is an estimate.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]

_MAX_STEPS = 16
"""Difference of counts up to which every offset is tried (lines lost one by one); above it, only the whole jump."""
_MIN_GAIN = 4.0
"""Score, a few lines' worth, by which an earlier change must beat the simplest explanation: the shorter file is cut
off."""
_WORD_START = re.compile(r"[^\W\d_]{4}")
_NUMBER = re.compile(r"\d+")
_ENDS = {".": 1, "。": 1, "।": 1, "?": 2, "？": 2, "؟": 2, "!": 3, "！": 3, ":": 4, "：": 4}


@dataclass(frozen=True, slots=True)
class Sketches:
    """Hold what is remembered of each line, 21 bytes a line."""

    lengths: npt.NDArray[np.uint32]
    numbers: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]

    def cut(self, start: int, size: int) -> "Sketches":
        part = slice(start, start + size)
        return Sketches(self.lengths[part], self.numbers[part], self.ends[part], self.words[part])


def shift_line(source: Iterable[str], target: Iterable[str]) -> int:
    """Return the 1-based line from which sources and targets of different counts seem to be paired wrongly.

    It is one more than the shorter count where the shorter side seems to be cut off at its end.
    """
    longer, shorter = _sketch(source), _sketch(target)
    if len(longer.lengths) < len(shorter.lengths):
        longer, shorter = shorter, longer
    size = len(shorter.lengths)
    if not size:
        return 1
    difference = len(longer.lengths) - size
    offsets = range(difference + 1) if difference <= _MAX_STEPS else (0, difference)
    centre = float(np.median(length_ratio(longer.cut(0, size), shorter)))
    return _first_change(agreement(longer.cut(offset, size), shorter, centre) for offset in offsets) + 1


class SketchBuilder:
    """Gathers the sketches of lines, one after the other."""

    def __init__(self) -> None:
        self._lengths, self._numbers, self._ends, self._words = array("I"), array("I"), array("B"), array("Q")

    def add(self, line: str, word_bits: int | None = None) -> None:
        """One more line; `word_bits` is a set of 64 of its words, by default of how they begin."""
        text = line.strip()
        self._lengths.append(len(text))
        digits = _NUMBER.findall(text)
        self._numbers.append(crc32(" ".join(sorted(digits)).encode()) if digits else 0)
        self._ends.append(_ENDS.get(text[-1:], 0))
        self._words.append(_word_bits(text.casefold()) if word_bits is None else word_bits)

    def sketches(self) -> Sketches:
        """Those of all lines so far."""
        return Sketches(
            np.frombuffer(self._lengths, np.uint32),
            np.frombuffer(self._numbers, np.uint32),
            np.frombuffer(self._ends, np.uint8),
            np.frombuffer(self._words, np.uint64),
        )


def _sketch(lines: Iterable[str]) -> Sketches:
    builder = SketchBuilder()
    for line in lines:
        builder.add(line)
    return builder.sketches()


def _word_bits(text: str) -> int:
    """A set of 64 with the first four letters of each word in it: names and cognates meet there."""
    bits = 0
    for start in _WORD_START.findall(text):
        bits |= 1 << (crc32(start.encode("utf-8", "replace")) & 63)
    return bits


def agreement(left: Sketches, right: Sketches, centre: float) -> Scores:
    """Score of each pairing of line i with line i; higher is likelier to be a translation."""
    score: Scores = -3.0 * np.minimum(np.abs(length_ratio(left, right) - centre), 1.0)
    score -= 0.5 * (left.ends != right.ends)
    some_number = (left.numbers != 0) | (right.numbers != 0)
    score += np.where(some_number, np.where(left.numbers == right.numbers, 2.0, -1.0), 0.0)
    shared = np.bitwise_count(left.words & right.words).astype(np.float64)
    by_chance = np.bitwise_count(left.words) * np.bitwise_count(right.words).astype(np.float64) / 64
    score += 0.5 * (shared - by_chance)
    return score


def length_ratio(left: Sketches, right: Sketches) -> Scores:
    ratio: Scores = np.log((left.lengths + 1.0) / (right.lengths + 1.0))
    return ratio


def _first_change(scores_of_offsets: Iterator[Scores]) -> int:
    """How many lines the best path stays at the first offset, when it may go on to later offsets but never back."""
    # best[p]: score of the best path over the first p lines that may still be at this offset;
    # first[p]: where that path left offset 0, p while it has not.
    best = np.concatenate(([0.0], np.cumsum(next(scores_of_offsets))))
    unchanged = best[-1]
    first = np.arange(len(best))
    for scores in scores_of_offsets:
        total = np.concatenate(([0.0], np.cumsum(scores)))
        gain = best - total
        # Entering this offset at q <= p is worth gain[q]; keep the best q so far.
        highest = np.maximum.accumulate(gain)
        entered = np.maximum.accumulate(np.where(gain >= highest, np.arange(len(gain)), 0))
        first = first[entered]
        best = total + highest
    return int(first[-1]) if best[-1] > unchanged + _MIN_GAIN else len(best) - 1
