"""A whole quotation is read without its marks, and its translation has those of its own language."""

from __future__ import annotations

import pytest

from dikkat_runtime.text.normalizing import enclosed


@pytest.mark.parametrize(
    ("text", "language", "marks"),
    [
        ('"A cat."', "fr", ('"', '"')),
        ("“A cat.”", "fr", ("«\u00a0", "\u00a0»")),
        ("“A cat.”", "de_DE", ("„", "“")),
        ("« Un chat. »", "en", ("“", "”")),
        ("„Eine Katze.“", "tr", ("“", "”")),
        ("»Eine Katze.«", "es", ("«", "»")),
    ],
)
def test_marks_around_a_whole_text(text: str, language: str, marks: tuple[str, str]) -> None:
    span = enclosed(text, language)
    assert span is not None
    assert span[2:] == marks
    assert text[span[0] : span[1]].strip(" ") == text[1:-1].strip(" ")


@pytest.mark.parametrize("text", ['A "cat".', '"A" and "b"', '""', '"', "", '" "', "'tis'", "“A cat", '"A cat”'])
def test_other_marks_are_part_of_the_text(text: str) -> None:
    assert enclosed(text, "fr") is None
