"""Lines that a translator was not trained for, counted so that none is answered in part without a word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SEVERAL = re.compile(r"[.!?…][\"'”’»)]*\s+\S|[。！？].|[\r\u2028]\s*\S")
"""A sentence that ends before the line does; an abbreviation looks the same, so it only counts."""
_SHARE = 0.005
"""Of training lines with several sentences; below it nothing is learned from them."""
_SLACK = 1.25
"""A line may be so much longer than the longest of the training data."""


def has_words(text: str) -> bool:
    """Whether there is anything to translate in a text: a letter of any script."""
    return any(map(str.isalpha, text))


@dataclass
class LineNotes:
    """Counts lines that are longer than the model's training lines, or hold several sentences where these held one."""

    most_tokens: int
    """Tokens of the longest line that is read as in training."""
    one_sentence: bool
    """Whether the model was trained on lines of one sentence."""
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each remark how many lines it is on, and the first of them, from 1."""

    @classmethod
    def of_run(cls, config: Mapping[str, Any]) -> LineNotes:
        """From the settings of a run; one of an older dikkat does not say what its lines were like."""
        source: Any = config.get("data_source")
        profile: Any = source.get("source_lines") if isinstance(source, dict) else None
        try:
            return cls(int(_SLACK * profile["longest"]), profile["several_sentences"] < _SHARE)
        except (TypeError, KeyError, ValueError, OverflowError):
            return cls(int(config["data"]["max_length"]), one_sentence=False)

    def note(self, number: int, text: str, num_tokens: int) -> None:
        """Count the line `number`, counted from 1."""
        if num_tokens > self.most_tokens:
            self._count("longer than the lines that the model was trained on", number)
        elif self.one_sentence and _SEVERAL.search(text):
            self._count("of several sentences, where the model was trained on lines of one", number)

    def lines(self) -> list[str]:
        """What there is to tell, one line each."""
        return [
            f"{count:,} line{'' if count == 1 else 's'} {what} (line {first}): read in one piece, so the translation"
            " may be incomplete; give a sentence a line, or use dikkat translate, which cuts them"
            for what, (count, first) in self.counts.items()
        ]

    def _count(self, what: str, number: int) -> None:
        count, first = self.counts.get(what, (0, number))
        self.counts[what] = count + 1, first
