"""The log is looked up by day and machine, and the decisions are read on one page."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "log"
MAX_LENGTH = 25
MAX_WORDS_OF_DECISIONS = 2_500
HEADING = re.compile(r"## 20\d\d-\d\d-\d\d, [A-Z]\w*(?:(?:,| and) [A-Z]\w*)*")
"""A day, and the machines that it was measured on."""


def entries(text: str) -> dict[str, int]:
    """Return the number of lines of each entry, its heading included."""
    parts = re.split(r"(?m)^(?=##+ )", text)[1:]
    return {part.split("\n", 1)[0]: len(part.rstrip("\n").split("\n")) for part in parts}


def test_every_entry_is_short() -> None:
    files = sorted(FOLDER.glob("*.md"))
    assert files
    for file in files:
        assert re.fullmatch(r"\d{4}-\d\d", file.stem), "a file a month"
        lengths = entries(file.read_text(encoding="utf-8"))
        assert len(lengths) > 10
        assert not {title: lines for title, lines in lengths.items() if lines > MAX_LENGTH}
        assert [title for title in lengths if not HEADING.fullmatch(title)] == []


def test_decisions_are_one_page() -> None:
    assert len((DOCS / "decisions.md").read_text(encoding="utf-8").split()) <= MAX_WORDS_OF_DECISIONS


def test_a_long_entry_is_counted_whole() -> None:
    text = "# Log\n\n## A day\n\n### One\na\n\n### Two\n" + "b\n" * 40
    assert entries(text) == {"## A day": 1, "### One": 2, "### Two": 41}
