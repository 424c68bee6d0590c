"""Count events of translated lines that a user should know, and report them at the end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.errors import joined, msg, plural
from dikkat_runtime.tasks.confidence import Flag
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.placeholders import KINDS, Kind

Event = Literal[
    "cut", "long word", "carriage return", "loop", "unfinished", "misplaced", "direction", "symbols", "words lost"
]

_MESSAGES: dict[Event, tuple[str, str]] = {
    "cut": (
        "1 line had a sentence that the model cannot read in one piece and that was cut",
        "{count:,} lines had a sentence that the model cannot read in one piece and that was cut",
    ),
    "long word": (
        "1 line had a word that the model cannot read in one piece and that was copied",
        "{count:,} lines had a word that the model cannot read in one piece and that was copied",
    ),
    "carriage return": (
        "1 line had a carriage return (\\r) inside, which ends a sentence here, not a line; tr '\\r' '\\n' makes "
        "lines of them",
        "{count:,} lines had a carriage return (\\r) inside, which ends a sentence here, not a line; tr '\\r' '\\n' "
        "makes lines of them",
    ),
    "loop": (
        "1 line came out as a loop and was translated again without repeating three tokens",
        "{count:,} lines came out as a loop and were translated again without repeating three tokens",
    ),
    "unfinished": (
        "1 translation reached the length limit and ends unfinished",
        "{count:,} translations reached the length limit and end unfinished",
    ),
    "misplaced": (
        "1 line had a placeholder that the model did not place; it was put at the same relative position of the line",
        "{count:,} lines had a placeholder that the model did not place; it was put at the same relative "
        "position of the line",
    ),
    "direction": (
        "1 line had direction controls, which may show a text in another order than it is read; they are left out",
        "{count:,} lines had direction controls, which may show a text in another order than it is read; they "
        "are left out",
    ),
    "symbols": ("1 line had more symbols than can be kept", "{count:,} lines had more symbols than can be kept"),
    "words lost": (
        "1 line has a prefix after which the model lost words of the line",
        "{count:,} lines have a prefix after which the model lost words of the line",
    ),
}
_SHOWN_TERMS = 10
_SHOWN_LINES = 10
_PLURALS: dict[Kind, str] = {
    "placeholder": "placeholders", "tag": "tags", "URL": "URLs", "e-mail": msg("e-mail addresses"), "number": "numbers",
}  # fmt: skip


@dataclass(slots=True)
class _Tally:
    count: int = 0
    first: int = 0
    example: str = ""

    def add(self, line: int, example: str = "") -> None:
        if not self.count:
            self.first, self.example = line, example
        self.count += 1


@dataclass(slots=True)
class _Unplaced:
    """How often a term was not placed, and in which lines at first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < _SHOWN_LINES and line not in self.lines[-1:]:
            self.lines.append(line)

    def shown(self, *, numbered: bool) -> str:
        if not numbered:
            return f"{self.count:,}"
        numbers = ", ".join(map(str, self.lines))
        more = ", …" if self.count > len(self.lines) else ""
        return msg("line {numbers}{more}" if len(self.lines) == 1 else "lines {numbers}{more}").fill(numbers, more)


@dataclass(slots=True)
class TranslationNotes:
    """Counters of lines, numbered from 1, by event."""

    _events: dict[Event, _Tally] = field(default_factory=dict)
    _lost: dict[Kind, _Tally] = field(default_factory=dict)
    _had: dict[Kind, int] = field(default_factory=dict)
    _last: dict[Event, int] = field(default_factory=dict)
    _flags: dict[Flag, _Tally] = field(default_factory=dict)
    _abstained: _Tally = field(default_factory=_Tally)
    _terms: Counter[str] = field(default_factory=Counter)
    _term_lines: _Tally = field(default_factory=_Tally)
    _changed: _Tally = field(default_factory=_Tally)
    _unplaced: dict[str, _Unplaced] = field(default_factory=dict)

    def add(self, event: Event, line: int) -> None:
        """Count an event once a line, whatever the number of its pieces."""
        if self._last.get(event) != line:
            self._last[event] = line
            self._events.setdefault(event, _Tally()).add(line)

    def count(self, event: Event) -> int:
        """Return the number of lines to which this happened."""
        tally = self._events.get(event)
        return 0 if tally is None else tally.count

    def compare(self, line: int, had: set[Kind], lost: list[tuple[Kind, str]]) -> None:
        """Note the kinds of protected text that a line `had`, and those of them that were `lost`."""
        for kind in had:
            self._had[kind] = self._had.get(kind, 0) + 1
        for kind, example in dict(reversed(lost)).items():
            self._lost.setdefault(kind, _Tally()).add(line, example)

    def flagged(self, flag: Flag, line: int) -> None:
        """Note a fault of a line that is visible without the model."""
        self._flags.setdefault(flag, _Tally()).add(line)

    def abstained(self, line: int) -> None:
        """Note a line that was left empty, since its translation is not sure enough."""
        self._abstained.add(line)

    def demanded(self, line: int, demands: Sequence[Demanded], unmet: Sequence[Demanded], *, changed: bool) -> None:
        """Note the `demands` on a piece of a line and the `unmet` ones.

        `changed` is True where the translation is another one than without them.
        """
        terms = [demand for demand in demands if demand.reason == "term"]
        if not terms:
            return
        for term in terms:
            self._terms[_arrow(term)] += term.count
        self._term_lines.add(line, "")
        if changed:
            self._changed.add(line)
        for term in unmet:
            if term.reason == "term":
                self._unplaced.setdefault(_arrow(term), _Unplaced()).add(line)

    @property
    def unplaced(self) -> dict[str, int]:
        """The number of times that each term, "term → translation", was not placed."""
        return {term: tally.count for term, tally in self._unplaced.items()}

    def lines(self) -> list[str]:
        """Return one line for each kind of event, and one for all losses."""
        messages: list[str] = []
        for event, (one, many) in _MESSAGES.items():
            if tally := self._events.get(event):
                text = msg(one) if tally.count == 1 else msg(many, tally.count)
                messages.append(
                    msg("{text} ({order}line {first})", text, "" if tally.count == 1 else msg("first "), tally.first)
                )
        messages += self.glossary_lines()
        if self._flags:
            flags = [(flag, tally.count, tally.first) for flag, tally in self._flags.items()]
            shown_flags = (
                msg("{flag} in {lines} (line {first})", msg(flag), plural(count, "line"), first)
                for flag, count, first in flags
            )
            messages.append(msg("flagged: {flags}", joined("; ", shown_flags)))
        if count := self._abstained.count:
            messages.append(
                msg("{lines} left empty by --abstain (first line {first})").fill(
                    plural(count, "line"), self._abstained.first
                )
            )
        losses = [self._loss(kind) for kind in KINDS if kind in self._lost]
        return [*messages, msg("lost or changed: {losses}", joined("; ", losses))] if losses else messages

    def glossary_lines(self, *, numbered: bool = True) -> list[str]:
        """Return the lines on the use of a glossary and its terms that were not placed, `numbered` by lines."""
        if not self._terms:
            return []
        used = [f"{shown(term)} ({count:,})" for term, count in self._terms.most_common(_SHOWN_TERMS)]
        total = sum(self._terms.values())
        messages: list[str] = [
            msg(
                "glossary: {terms} in {texts}, {count:,} of them changed to contain the required terms: "
                "{examples}{more}"
            ).fill(
                plural(total, "term"),
                plural(self._term_lines.count, "text"),
                self._changed.count,
                ", ".join(used),
                _more(len(self._terms) - len(used)),
            )
        ]
        if self._unplaced:
            named = [
                msg("{term} ({where})", shown(term), tally.shown(numbered=numbered))
                for term, tally in list(self._unplaced.items())[:_SHOWN_TERMS]
            ]
            count = sum(tally.count for tally in self._unplaced.values())
            messages.append(
                msg("glossary: {terms} not placed, since other words would be lost: {examples}{more}").fill(
                    plural(count, "term"), joined(", ", named), _more(len(self._unplaced) - len(named))
                )
            )
        return messages

    def _loss(self, kind: Kind) -> str:
        tally, had = self._lost[kind], self._had[kind]
        example = tally.example if len(tally.example) <= 60 else f"{tally.example[:60]}…"
        lines = msg("line" if had == 1 else "lines")
        return msg("{names} in {count:,} of {total:,} {lines} (line {first}: {example})").fill(
            msg(_PLURALS[kind]), tally.count, had, lines, tally.first, shown(example)
        )


def _arrow(term: Demanded) -> str:
    return f"{term.source} → {'|'.join(term.forms)}"


def _more(count: int) -> str:
    return msg(" and {count:,} more", count) if count > 0 else ""


def shown(text: str) -> str:
    """Return a text with its control characters escaped for a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
