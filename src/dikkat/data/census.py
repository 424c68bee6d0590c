"""The census of a file of translations: its pairs, their languages, and what was passed over and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dikkat_runtime.messages import joined, msg, plural


@dataclass(slots=True)
class Census:
    """Counts of what is read of a file; it grows while the file is read."""

    name: str
    pairs: int = 0
    languages: tuple[str, str] = ("", "")
    """As the file writes them; empty where it says nothing."""
    choice: str = ""
    """Why these two, where the file holds more."""
    skipped: Counter[str] = field(default_factory=Counter)
    """For each reason how many were passed over, in words that follow the number."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What else was met, how often."""

    def line(self) -> str:
        """Return all counts in one line."""
        between = (
            msg(" of {languages} and {languages2}").fill(self.languages[0] or "?", self.languages[1] or "?")
            if any(self.languages)
            else ""
        )
        line = msg("{name}: {pairs}{between}{choice}").fill(self.name, plural(self.pairs, "pair"), between, self.choice)
        if self.skipped:
            reasons = (msg("{count:,} {reason}").fill(count, reason) for reason, count in self.skipped.most_common())
            line += msg("; passed over: {reasons}").fill(joined(", ", reasons))
        remarks = (msg("; {what}: {count:,}").fill(what, count) for what, count in sorted(self.remarks.items()))
        return joined("", (line, *remarks))
