"""Alignment error against its formula, worked out by hand, and what is no alignment."""

from __future__ import annotations

import pytest

from dikkat.errors import DataError
from dikkat.evaluation.alignment_error import alignment_error, parse_alignments


def test_the_formula_by_hand() -> None:
    """A = {0-0, 1-1, 2-0}, S = {0-0, 1-2}, P = S and {1-1}: AER = 1 - (1 + 2) / (3 + 2)."""
    (gold,) = parse_alignments(["0-0 1-2 1p1"], "gold")
    scores = alignment_error([{(0, 0), (1, 1), (2, 0)}], [gold])
    assert scores.error == pytest.approx(1 - 3 / 5)
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(1 / 2)


def test_sentences_count_by_their_links() -> None:
    """Not a mean of sentences: three links of one and one of the other."""
    gold = parse_alignments(["0-0 1-1 2-2", "0-0"], "gold")
    scores = alignment_error([{(0, 0), (1, 1), (2, 2)}, {(0, 1)}], gold)
    assert scores.error == pytest.approx(1 - (3 + 3) / (4 + 4))


def test_all_and_nothing() -> None:
    gold = parse_alignments(["0-0 1?1", ""], "gold")
    assert alignment_error([{(0, 0), (1, 1)}, set()], gold).error == 0.0
    nothing = alignment_error([set(), set()], gold)
    assert (nothing.error, nothing.precision, nothing.recall) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("word", ["0", "0-", "a-0", "0--1", "0:1", "\u0661-0"])
def test_what_is_no_link_is_named_with_its_line(word: str) -> None:
    with pytest.raises(DataError, match=f'gold.txt:2: "{word}" is no link; write 0-2'):
        parse_alignments(["0-0", f"1-1 {word}"], "gold.txt")


def test_a_link_outside_the_sentence() -> None:
    (gold,) = parse_alignments(["0-0 2-1"], "gold.txt")
    gold.require_within(3, 2)
    with pytest.raises(DataError, match=r"gold\.txt:1: link 2-1: the source has only the words 0 to 1"):
        gold.require_within(2, 2)
    with pytest.raises(DataError, match=r"gold\.txt:1: link 2-1: the target has only the words 0 to 0"):
        gold.require_within(3, 1)
