"""All faults of a corpus of pairs, found in one pass over it, with counts, examples and the blocks that are shifted.

What is held of a pair are a byte and two sketches, not its texts; memory stays far below the size of the corpus.

Statistics of the words of a corpus: which side a text belongs to, and which words answer each other.

They are learned from the first pairs of the corpus itself, most of which are right, without knowledge of a language.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dikkat.data.alignment import Scores, SketchBuilder, Sketches, agreement, length_ratio
from dikkat.data.faults.pair_checks import Fault, later_fault, own_fault
from dikkat.data.languages import are_alike, guess_language, language_scores, languages_known
from dikkat.data.near_duplicates import near_key
from dikkat.data.pairs import Pair
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.text.pair_faults import is_copy

MAX_LINES = 4
"""How far a block may be shifted."""
MIN_LENGTH = 8
"""Pairs of the shortest block that is distinguished from chance."""
_MIN_GAIN = 12.0
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
    if count < MIN_LENGTH:
        return []
    centre = float(np.median(length_ratio(sources, targets)))
    here = agreement(sources, targets, centre)
    shifts: list[Shift] = []
    for lines in range(-MAX_LINES, MAX_LINES + 1):
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
    candidates = np.flatnonzero(np.convolve(gains, np.ones(MIN_LENGTH), "same") > _MIN_GAIN / 2)
    if not len(candidates):
        return
    breaks = np.flatnonzero(np.diff(candidates) > 4 * MIN_LENGTH)
    starts = [candidates[0], *candidates[breaks + 1]]
    for start, end in zip(starts, [*candidates[breaks], candidates[-1]], strict=True):
        low, high = max(0, start - 2 * MIN_LENGTH), min(len(gains), end + 2 * MIN_LENGTH)
        first, last, total = _best_run(gains[low:high])
        if total >= _MIN_GAIN and last - first >= MIN_LENGTH:
            yield int(low + first), int(low + last)


def _best_run(gains: NDArray[np.float64]) -> tuple[int, int, float]:
    sums = np.concatenate(([0.0], np.cumsum(gains)))
    last = int(np.argmax(sums - np.minimum.accumulate(sums)))
    first = int(np.argmin(sums[: last + 1]))
    return first, last, float(sums[last] - sums[first])


def _apart(shifts: list[Shift]) -> list[Shift]:
    """Of blocks that overlap the longer one."""
    chosen: list[Shift] = []
    for shift in sorted(shifts, key=lambda shift: shift.first - shift.last):
        if all(shift.last <= other.first or shift.first >= other.last for other in chosen):
            chosen.append(shift)
    return sorted(chosen, key=lambda shift: shift.first)


_WORD = re.compile(r"[^\W\d_]+")
_COMMON = 0.05
"""Share of the pairs from which on a word tells nothing of what a pair is about."""
_RARE = 2
_MAX_WORDS = 24
_LEARNED_FROM = 20_000
"""Pairs from which answers are learned."""
KNOWN_FROM = 3
"""Times that a word must have been met to be known."""


def words_of(text: str) -> list[str]:
    """Split a text into words in lower case, without numbers and signs."""
    return _WORD.findall(text.casefold())


class Lexicon:
    """The words of both sides of a corpus with their frequencies."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        split = [(words_of(source), words_of(target)) for source, target in pairs]
        for words in split:
            for side in (0, 1):
                counts[side].update(words[side])
        totals = [max(1, count.total()) for count in counts]
        self._odds = {
            word: math.log((counts[0][word] + 0.1) / totals[0]) - math.log((counts[1][word] + 0.1) / totals[1])
            for word in counts[0].keys() | counts[1].keys()
            if counts[0][word] + counts[1][word] >= KNOWN_FROM
        }
        """How much likelier a word is on the source side, as a logarithm."""
        self._answers = _answers(split[:_LEARNED_FROM])

    def odds(self, words: Sequence[str]) -> float:
        """Return the log-odds a word that a text is on the source side; 0 where no word is known."""
        return sum([self._odds.get(word, 0.0) for word in words]) / max(1, len(words))

    def bits(self, words: Iterable[str], side: int) -> int:
        """Hash the words of a text into 64 bits, so that a text and its translation share bits."""
        bits = 0
        for word in words:
            bits |= _bit(self._answers.get(word, word) if side == 0 else word)
        return bits


@lru_cache(maxsize=1 << 16)
def _bit(word: str) -> int:
    # names, numbers and cognates begin alike
    return 1 << (crc32(word[:5].encode("utf-8", "replace")) & 63)


def _answers(split: Sequence[tuple[list[str], list[str]]]) -> dict[str, str]:
    """For each source word the target word that it stands with most often for its frequency (Dice 1945)."""
    frequencies = [Counter(word for words in split for word in set(words[side])) for side in (0, 1)]
    most = max(3.0, _COMMON * len(split))
    together: dict[str, Counter[str]] = {}
    for source, target in split:
        theirs = [word for word in dict.fromkeys(target) if _RARE <= frequencies[1][word] <= most][:_MAX_WORDS]
        for word in dict.fromkeys(source[:_MAX_WORDS]):
            if _RARE <= frequencies[0][word] <= most:
                together.setdefault(word, Counter()).update(theirs)
    return {
        word: max(counts, key=lambda other: counts[other] / (frequencies[0][word] + frequencies[1][other]))
        for word, counts in together.items()
        if counts
    }


_MIN_LETTERS = 16
MAX_WORDS = 30_000
"""Words that are remembered; those met later say nothing."""
_MIN_MARGIN = 8.0
"""Logarithm by which another language must be likelier than a text's own."""
_MIN_SHARE = 0.5
"""Of the words of a text those that must be likelier in the other language."""


class WordLanguages:
    """Tells whether texts of a side are in another language than its own, by scores of their words."""

    def __init__(self, own: str) -> None:
        codes = languages_known()
        self._own = codes.index(own) if own in codes else None
        others = np.array([code != own and not are_alike(code, own) for code in codes])
        self._others = np.where(others, 0.0, -np.inf)
        self._margins: dict[str, float] = {}
        self._scores: dict[str, NDArray[np.float64]] = {}

    def is_foreign(self, words: Sequence[str]) -> bool:
        """Return whether `words` are those of a text in another language."""
        if self._own is None or sum(map(len, words)) < _MIN_LETTERS:
            return False
        # no language is likelier in the whole than the likeliest one of each word
        if sum(map(self._margin, words)) > -_MIN_MARGIN:
            return False
        scores = np.sum([self._scores[word] for word in words if word in self._scores], axis=0)
        best = int(np.argmax(scores + self._others))
        if scores[best] - scores[self._own] < _MIN_MARGIN:
            return False
        known = [self._scores[word] for word in words if word in self._scores]
        likelier = sum(bool(scores[best] > scores[self._own]) for scores in known)
        return likelier >= _MIN_SHARE * len(words)

    def _margin(self, word: str) -> float:
        """How much likelier a word is in its own language than in the likeliest other one, as a logarithm."""
        margin = self._margins.get(word)
        if margin is None:
            if len(self._scores) >= MAX_WORDS or self._own is None:
                return math.inf
            scores = language_scores(f" {word} ")
            self._scores[word] = scores
            margin = self._margins[word] = float(scores[self._own] - (scores + self._others).max())
        return margin


_MIN_WORDS = 3
_OTHER_SIDE = 1.0
"""Logarithm a word from which on a text reads like the other side."""
_NEITHER = 0.3
"""Up to which it says nothing."""
_SAMPLE = 2_000


@dataclass(frozen=True, slots=True)
class SideLanguages:
    """The languages of source and target; a side whose language is not known is judged by the words of the corpus."""

    codes: tuple[str, str]
    words: tuple[WordLanguages, WordLanguages]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], codes: tuple[str, str]) -> "SideLanguages":
        """Return the languages that `codes` names, else those that the pairs seem to be in."""
        texts_by_side = ([pair[side] for pair in pairs[:: max(1, len(pairs) // _SAMPLE)]] for side in (0, 1))
        guessed = [code or guess_language(texts) for code, texts in zip(codes, texts_by_side, strict=True)]
        notes: list[str] = [
            msg("the language of the {side} is not clear; give --{option}-language", msg(name), name)
            for name, code in zip(("source", "target"), guessed, strict=True)
            if not code
        ]
        return cls((guessed[0], guessed[1]), (WordLanguages(guessed[0]), WordLanguages(guessed[1])), notes)

    def fault(self, words: tuple[list[str], list[str]], lexicon: Lexicon) -> Fault:
        """Return `SWAPPED` for swapped sides, `LANGUAGE` for a side in a foreign language, else `NONE`."""
        source, target = lexicon.odds(words[0]), lexicon.odds(words[1])
        is_likely = target - source > _OTHER_SIDE and max(-source, target) > _OTHER_SIDE
        if is_likely and source < _NEITHER and target > -_NEITHER and all(words):
            return Fault.SWAPPED
        for side, reads_like_other in enumerate((source < -_OTHER_SIDE, target > _OTHER_SIDE)):
            enough = len(words[side]) >= _MIN_WORDS
            if enough and (reads_like_other or self.words[side].is_foreign(words[side])):
                return Fault.LANGUAGE
        return Fault.NONE


LEARNED_FROM = 50_000
"""Pairs from whose words it is learned how the two sides read."""
EXAMPLES = 20
"""Shown of each kind."""
_EXAMPLE_WIDTH = 300
_CHECKED_LATER = frozenset((Fault.MARKUP, Fault.PLACEHOLDERS, Fault.NUMBERS, Fault.SENTENCES, Fault.LENGTH))


@dataclass(frozen=True, slots=True)
class Example:
    """A pair with a fault."""

    line: str
    """Where it stands: a number, with the name of its file where there are several."""
    source: str
    target: str


@dataclass(slots=True)
class DataCheck:
    """The faults that a check found in a corpus of pairs."""

    faults: NDArray[np.uint8]
    """The fault of each pair, by its index."""
    examples: dict[Fault, list[Example]]
    shifts: list[tuple[Shift, int]]
    """Each with the line where it begins."""
    languages: tuple[str, str]
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[Fault, int]:
        counts = np.bincount(self.faults, minlength=len(Fault))
        return {fault: int(counts[fault]) for fault in Fault if fault is not Fault.NONE and counts[fault]}

    @property
    def pairs(self) -> int:
        return len(self.faults)


def check_pairs(
    pairs: Iterable[Pair], languages: tuple[str, str] = ("", ""), held_out: Iterable[Pair] = ()
) -> DataCheck:
    """Look at all pairs; `languages` are those of the sides (two letters, guessed where empty).

    What is `held_out` for validation and test must not come in `pairs`, not even alike.
    """
    remaining = iter(pairs)
    first = list(islice(remaining, LEARNED_FROM))
    usable = [(pair.source, pair.target) for pair in first if not own_fault(pair.source, pair.target)]
    checker = _Checker(Lexicon(usable), SideLanguages.of(usable, languages), _near_keys(held_out))
    for pair in chain(first, remaining):
        checker.add(pair)
    return checker.finish()


def _near_keys(pairs: Iterable[Pair]) -> tuple[frozenset[int], frozenset[int]]:
    keys: tuple[set[int], set[int]] = (set(), set())
    for pair in pairs:
        for side, text in enumerate((pair.source, pair.target)):
            if key := near_key(text):
                keys[side].add(hash(key))
    return frozenset(keys[0]), frozenset(keys[1])


class _Checker:
    def __init__(
        self, lexicon: Lexicon, languages: SideLanguages, held_out: tuple[frozenset[int], frozenset[int]]
    ) -> None:
        self._lexicon, self._languages, self._held_out = lexicon, languages, held_out
        self._faults, self._later, self._lines = array("B"), array("B"), list[int]()
        self._sides = (SketchBuilder(), SketchBuilder())
        self._seen: set[int] = set()
        self._examples: dict[Fault, list[Example]] = {}
        self._recent: dict[Fault, list[tuple[int, Example]]] = {fault: [] for fault in _CHECKED_LATER}

    def add(self, pair: Pair) -> None:
        source, target = pair.source.strip(), pair.target.strip()
        fault = own_fault(source, target)
        words: tuple[list[str], list[str]] = ([], []) if fault else (words_of(source), words_of(target))
        if not fault:
            fault = self._met_before(source, target) or self._languages.fault(words, self._lexicon)
        later = Fault.NONE if fault else later_fault(source, target)
        for side, text in enumerate((source, target)):
            self._sides[side].add(text, self._lexicon.bits(words[side], side))
        number = len(self._faults)
        self._faults.append(fault)
        self._later.append(later)
        self._lines.append(pair.line)
        if fault or later:
            example = Example(str(pair.line), source[:_EXAMPLE_WIDTH], target[:_EXAMPLE_WIDTH])
            if fault and len(self._examples.setdefault(fault, [])) < EXAMPLES:
                self._examples[fault].append(example)
            if later and len(self._recent[later]) < 10 * EXAMPLES:
                self._recent[later].append((number, example))

    def _met_before(self, source: str, target: str) -> Fault:
        if (key := hash((source, target))) in self._seen:
            return Fault.DUPLICATE
        self._seen.add(key)
        if any(self._held_out) and any(
            hash(near_key(text)) in keys for text, keys in zip((source, target), self._held_out, strict=True)
        ):
            return Fault.SEEN
        return Fault.COPY if is_copy(source, target) else Fault.NONE

    def finish(self) -> DataCheck:
        """Find what only the whole shows."""
        faults = np.array(self._faults, np.uint8)
        blocks = find_shifts(self._sides[0].sketches(), self._sides[1].sketches())
        shifted = np.zeros(len(faults), bool)
        for shift in blocks:
            shifted[shift.first : shift.last] = True
        shifted &= (faults == Fault.NONE) | (faults == Fault.SENTENCES)
        later = np.array(self._later, np.uint8)
        faults = np.where(faults != Fault.NONE, faults, np.where(shifted, np.uint8(Fault.SHIFTED), later))
        for fault, recent in self._recent.items():
            self._examples[fault] = [example for number, example in recent if faults[number] == fault][:EXAMPLES]
        shifts = [(shift, self._lines[shift.first]) for shift in blocks]
        return DataCheck(faults, self._examples, shifts, self._languages.codes, self._languages.notes)


def without_faults(pairs: Iterable[Pair], check: DataCheck) -> Iterator[tuple[Pair, Fault]]:
    """Yield `pairs`, read again in the order of `check`, each with its fault."""
    return zip(pairs, map(Fault, check.faults.tolist()), strict=True)


def shift_lines(check: DataCheck) -> Sequence[str]:
    """Return a line about each shift: where it begins and how far it moves the targets."""
    return [
        msg("from line {line} on, {count:,} targets belong to the source {lines} {direction}").fill(
            line,
            shift.last - shift.first,
            plural(abs(shift.lines), "line"),
            msg("after" if shift.lines > 0 else "before"),
        )
        for shift, line in check.shifts
    ]
