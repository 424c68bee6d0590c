"""Leave out pairs that are not fit to learn from: small named rules, and a count with an example for each reason.

Cleaning streams; duplicates are left out by `duplicates`. Texts are brought to NFC and trimmed at both ends before the
rules look at them.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dikkat.config import DataConfig
from dikkat.data.pairs import Pair
from dikkat_runtime.errors import joined, msg
from dikkat_runtime.text.pair_faults import num_words, width

CHARACTERS_PER_TOKEN = 16
"""Generous upper bound: a side of more than this times `max_length` characters has more than `max_length` tokens."""
RATIO_FROM = 20
"""Length of the longer side from which the length ratio is meaningful; "Go." may be "Vas-y, maintenant."."""
MIN_LETTERS = 0.25
"""Least share of letters among the visible characters of a side. It is low, since the vowel signs of Indic scripts and
the vowel points of Semitic ones do not count as letters."""
COPY_FROM = 4
"""Words from which equal sides are taken for an untranslated line; shorter ones are names and the like ("OK")."""
_NORMALISED_AT_ONCE = 1_000
EXAMPLE_WIDTH = 40
"""Characters shown of each side in an example."""

# Controls but the tab, the replacement character (a trace of wrong decoding), lone surrogates and noncharacters.
_NOT_FOR_TEXT = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd-\uffff\ud800-\udfff]")


class Rule(NamedTuple):
    """Hold a reason to leave a pair out, and the test of (source, target) that is true for such pairs."""

    reason: str
    rejects: Callable[[str, str], bool]


@dataclass(slots=True)
class CleaningReport:
    """Count the pairs that were read, kept, and left out for each reason, with the first as example."""

    read: int = 0
    kept: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    unit: str = "pairs"
    """Name of what was read, in the plural."""
    notes: list[str] = field(default_factory=list)
    """Notes on how the data was read and what is unusual about it, a line each."""

    def note_held_out(self, validation: int, test: int) -> None:
        """Note how many pairs were held out for validation and test, where no other data was named for it."""
        tested = msg(" and {test:,} to test on (dikkat evaluate)", test) if test else ""
        self.notes.append(
            msg("held out: {validation:,} {unit} to validate on{tested}; none of them is trained on").fill(
                validation, msg(self.unit), tested
            )
        )

    @property
    def dropped(self) -> int:
        """Return the pairs left out, for all reasons together."""
        return sum(self.counts.values())

    def rows(self) -> list[tuple[str, int, str]]:
        """Return a table of (reason, count, example), the most frequent reason first."""
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [(reason, count, self.examples[reason]) for reason, count in ordered]

    def reasons(self) -> str:
        """Return the rows of the table in one line."""
        rows = (msg("{n:,} {why} ({example})", count, msg(reason), example) for reason, count, example in self.rows())
        return joined("; ", rows)

    def note(self, reason: str, pair: Pair, count: int = 1) -> None:
        """Count pairs that were left out, of which `pair` is one; the first of a reason becomes its example."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        if reason not in self.examples:
            self.examples[reason] = msg(
                "line {line}: {source} → {target}", pair.line, shorten(pair.source), shorten(pair.target)
            )


class Cleaner:
    """Yield the pairs that are fit to learn from, normalised; `report` grows while they stream through."""

    def __init__(self, config: DataConfig) -> None:
        self.report = CleaningReport()
        self._rules = rules(config)

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs that no rule rejects, in order, with the line numbers they came with."""
        for pair in pairs:
            self.report.read += 1
            source, target = normalise(pair.source), normalise(pair.target)
            reason = next((rule.reason for rule in self._rules if rule.rejects(source, target)), None)
            if reason is not None:
                self.report.note(reason, pair)
                continue
            self.report.kept += 1
            yield Pair(source, target, pair.line)


def normalise(text: str) -> str:
    """Return the text in Unicode normal form C, without white space at both ends."""
    if len(text) <= _NORMALISED_AT_ONCE:
        return unicodedata.normalize("NFC", text).strip()
    return "".join(unicodedata.normalize("NFC", piece) for piece in _pieces(text)).strip()


def _pieces(text: str) -> Iterator[str]:
    """A long text in pieces that normalise as the whole does: thousands of marks on one letter take quadratic time."""
    begin, size = 0, _NORMALISED_AT_ONCE
    while begin < len(text):
        candidates = range(begin + size, min(begin + 2 * size, len(text)))
        end = next((index for index in candidates if _begins_anew(text[index])), begin + 2 * size)
        yield text[begin:end]
        begin = end


def _begins_anew(character: str) -> bool:
    """Whether a character composes with none before it, as marks and the vowels of Hangul do."""
    return not unicodedata.category(character).startswith("M") and not "\u1160" <= character <= "\u11ff"


def rules(config: DataConfig) -> tuple[Rule, ...]:
    """Return the rules that test one pair alone, in the order of their application."""
    longest = CHARACTERS_PER_TOKEN * config.max_length
    return (
        Rule(msg("empty side"), lambda source, target: not source or not target),
        Rule(msg("control or replacement character"), lambda source, target: _broken(source) or _broken(target)),
        Rule(msg("too long"), lambda source, target: max(len(source), len(target)) > longest),
        Rule(msg("not text"), lambda source, target: not (is_text(source) and is_text(target))),
        Rule(msg("identical sides"), lambda source, target: source == target and num_words(source) >= COPY_FROM),
        Rule(msg("length ratio"), lambda source, target: _ratio(source, target) > config.max_ratio),
    )


def is_text(text: str) -> bool:
    """Return whether letters make up at least `MIN_LETTERS` of the visible characters."""
    letters = sum(map(str.isalpha, text))
    # Counting spaces costs as much again; nearly every line passes without.
    return letters >= MIN_LETTERS * len(text) or letters >= MIN_LETTERS * len("".join(text.split()))


def _broken(text: str) -> bool:
    return _NOT_FOR_TEXT.search(text) is not None


def _ratio(source: str, target: str) -> float:
    shorter, longer = sorted((width(source), width(target)))
    return longer / shorter if longer > RATIO_FROM else 1.0


def shorten(text: str, most: int = EXAMPLE_WIDTH) -> str:
    """Return the beginning of a text, of at most so many characters, in quotation marks and fit for a terminal."""
    # A report goes to a terminal: control characters are shown, not sent.
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:most])
    return f"“{shown}”" if len(text) <= most else f"“{shown}…”"
