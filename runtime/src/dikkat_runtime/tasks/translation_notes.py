"""What a user should know of a translated text beside the text, counted over its lines and told at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.errors import plural
from dikkat_runtime.tasks.confidence import Flag
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.placeholders import KINDS, Kind

Event = Literal["cut", "long word", "carriage return", "loop", "unfinished", "misplaced"]

_TOLD: dict[Event, tuple[str, str]] = {
    "cut": (
        "1 line had a sentence that the model cannot read in one piece and that was cut",
        "{count:,} lines had a sentence that the model cannot read in one piece and that was cut",
    ),
    "long word": (
        "1 line had a word that the model cannot read in one piece and that was copied",
        "{count:,} lines had a word that the model cannot read in one piece and that was copied",
    ),
    "carriage return": (
        "1 line had a carriage return (\\r) inside, which ends no line here but a sentence; tr '\\r' '\\n' makes lines",
        "{count:,} lines had a carriage return (\\r) inside, which ends no line here but a sentence;"
        " tr '\\r' '\\n' makes lines",
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
        "1 line had a placeholder that the model did not place; it stands at the same share of the line",
        "{count:,} lines had a placeholder that the model did not place; it stands at the same share of the line",
    ),
}
_SHOWN_TERMS = 10
_PLURALS: dict[Kind, str] = {
    "placeholder": "placeholders", "tag": "tags", "URL": "URLs", "e-mail": "e-mail addresses", "number": "numbers",
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
class TranslationNotes:
    """Counts lines, numbered from 1, by what happened to them."""

    _events: dict[Event, _Tally] = field(default_factory=dict)
    _lost: dict[Kind, _Tally] = field(default_factory=dict)
    _had: dict[Kind, int] = field(default_factory=dict)
    _last: dict[Event, int] = field(default_factory=dict)
    _flags: dict[Flag, _Tally] = field(default_factory=dict)
    _abstained: _Tally = field(default_factory=_Tally)
    _terms: Counter[str] = field(default_factory=Counter)
    _term_lines: _Tally = field(default_factory=_Tally)
    _forced: _Tally = field(default_factory=_Tally)
    _unmet: _Tally = field(default_factory=_Tally)

    def add(self, event: Event, line: int) -> None:
        """Once a line, whatever the number of its pieces."""
        if self._last.get(event) != line:
            self._last[event] = line
            self._events.setdefault(event, _Tally()).add(line)

    def count(self, event: Event) -> int:
        """Return the number of lines to which this happened."""
        tally = self._events.get(event)
        return 0 if tally is None else tally.count

    def compare(self, line: int, had: set[Kind], lost: list[tuple[Kind, str]]) -> None:
        """A line `had` these kinds of what must survive, and of them `lost` this."""
        for kind in had:
            self._had[kind] = self._had.get(kind, 0) + 1
        for kind, example in dict(reversed(lost)).items():
            self._lost.setdefault(kind, _Tally()).add(line, example)

    def flagged(self, flag: Flag, line: int) -> None:
        """A line shows a fault that is seen without the model."""
        self._flags.setdefault(flag, _Tally()).add(line)

    def abstained(self, line: int) -> None:
        """A line was left empty, since its translation is not sure enough."""
        self._abstained.add(line)

    def demanded(self, line: int, demands: Sequence[Demanded], unmet: Sequence[Demanded], *, forced: bool) -> None:
        """A piece of a line had to hold `demands`; of them `unmet` it does not, though all were `forced` if need be."""
        terms = [demand for demand in demands if demand.reason == "term"]
        if not terms:
            return
        missed = [demand for demand in unmet if demand.reason == "term"]
        for term in terms:
            self._terms[f"{term.source} → {'|'.join(term.forms)}"] += term.count
        self._term_lines.add(line, "")
        if forced:
            self._forced.add(line)
        for term in missed:
            self._unmet.add(line, f"{term.source} → {'|'.join(term.forms)}")

    def lines(self) -> list[str]:
        """One line for each kind of event that happened, and one for all that did not survive."""
        told = []
        for event, (one, many) in _TOLD.items():
            if tally := self._events.get(event):
                text = one if tally.count == 1 else many.format(count=tally.count)
                told.append(f"{text} ({'' if tally.count == 1 else 'first '}line {tally.first})")
        told += self.glossary_lines()
        if self._flags:
            flags = (
                f"{flag} in {plural(each.count, 'line')} (line {each.first})" for flag, each in self._flags.items()
            )
            told.append(f"flagged: {'; '.join(flags)}")
        if count := self._abstained.count:
            told.append(f"{plural(count, 'line')} left empty by --abstain (first line {self._abstained.first})")
        losses = [self._loss(kind) for kind in KINDS if kind in self._lost]
        return [*told, f"lost or changed: {'; '.join(losses)}"] if losses else told

    def glossary_lines(self) -> list[str]:
        """What of a glossary was used, and what is not as demanded."""
        if not self._terms:
            return []
        used = [f"{shown(term)} ({count:,})" for term, count in self._terms.most_common(_SHOWN_TERMS)]
        more = f" and {len(self._terms) - len(used):,} more" if len(self._terms) > len(used) else ""
        total = sum(self._terms.values())
        told = [
            f"glossary: {plural(total, 'term')} in {plural(self._term_lines.count, 'text')},"
            f" {self._forced.count:,} of them translated again to hold what is demanded: {', '.join(used)}{more}"
        ]
        if unmet := self._unmet.count:
            told.append(
                f"glossary: {plural(unmet, 'term')} not exactly as demanded"
                f" (first line {self._unmet.first}: {shown(self._unmet.example)})"
            )
        return told

    def _loss(self, kind: Kind) -> str:
        tally, had = self._lost[kind], self._had[kind]
        example = tally.example if len(tally.example) <= 60 else f"{tally.example[:60]}…"
        lines = "line" if had == 1 else "lines"
        return f"{_PLURALS[kind]} in {tally.count:,} of {had:,} {lines} (line {tally.first}: {shown(example)})"


def shown(text: str) -> str:
    """A text as it is shown on a terminal, which must not obey it."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
