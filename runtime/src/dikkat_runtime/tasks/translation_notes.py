"""What a user should know of a translated text beside the text, counted over its lines and told at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dikkat_runtime.text.placeholders import KINDS, Kind

Event = Literal["cut", "long word", "carriage return", "loop", "unfinished"]

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
}
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

    def add(self, event: Event, line: int) -> None:
        """Once a line, whatever the number of its pieces."""
        if self._last.get(event) != line:
            self._last[event] = line
            self._events.setdefault(event, _Tally()).add(line)

    def compare(self, line: int, had: set[Kind], lost: list[tuple[Kind, str]]) -> None:
        """A line `had` these kinds of what must survive, and of them `lost` this."""
        for kind in had:
            self._had[kind] = self._had.get(kind, 0) + 1
        for kind, example in dict(reversed(lost)).items():
            self._lost.setdefault(kind, _Tally()).add(line, example)

    def lines(self) -> list[str]:
        """One line for each kind of event that happened, and one for all that did not survive."""
        told = []
        for event, (one, many) in _TOLD.items():
            if tally := self._events.get(event):
                text = one if tally.count == 1 else many.format(count=tally.count)
                told.append(f"{text} ({'' if tally.count == 1 else 'first '}line {tally.first})")
        losses = [self._loss(kind) for kind in KINDS if kind in self._lost]
        return [*told, f"lost or changed: {'; '.join(losses)}"] if losses else told

    def _loss(self, kind: Kind) -> str:
        tally, had = self._lost[kind], self._had[kind]
        example = tally.example if len(tally.example) <= 60 else f"{tally.example[:60]}…"
        # shown, not obeyed by the terminal
        example = "".join(each if each.isprintable() else repr(each)[1:-1] for each in example)
        lines = "line" if had == 1 else "lines"
        return f"{_PLURALS[kind]} in {tally.count:,} of {had:,} {lines} (line {tally.first}: {example})"
