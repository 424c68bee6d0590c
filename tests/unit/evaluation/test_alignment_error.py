"""AER by hand, and alignments as people write them."""

from __future__ import annotations

import pytest

from dikkat.evaluation.alignment_error import GoldAlignment, alignment_error, parse_alignments
from dikkat_runtime.errors import DataError

LINES = ["0-0 1p2  3?1", "", "10-2\t2-10"]


def test_sure_and_possible_links() -> None:
    first, second, third = parse_alignments(LINES, "gold")
    assert first.sure == {(0, 0)}
    assert first.possible == {(0, 0), (1, 2), (3, 1)}
    assert not second.sure | second.possible
    assert third.sure == third.possible == {(10, 2), (2, 10)}
    assert [item.where for item in (first, second, third)] == ["gold:1", "gold:2", "gold:3"]


def test_rates_over_all_sentences() -> None:
    """|A| = 5, |S| = 4, |A∩S| = 2, |A∩P| = 3: AER = 1 - 5/9."""
    gold = parse_alignments(["0-0 1-1 2p2", "0-1 1-0"], "gold")
    result = [{(0, 0), (2, 2), (1, 2)}, [(0, 1), (0, 0)]]
    scores = alignment_error(result, gold)
    assert scores.error == pytest.approx(4 / 9)
    assert scores.precision == pytest.approx(3 / 5)
    assert scores.recall == pytest.approx(2 / 4)


def test_possible_links_cost_nothing_and_sure_ones_are_all_that_is_asked() -> None:
    gold = parse_alignments(["0-0 0p1"], "gold")
    for result in ({(0, 0)}, {(0, 0), (0, 1)}):
        scores = alignment_error([result], gold)
        assert (scores.error, scores.precision, scores.recall) == (0.0, 1.0, 1.0)


def test_nothing_found_or_nothing_to_find() -> None:
    gold = parse_alignments(["0-0", ""], "gold")
    missed = alignment_error([[], []], gold)
    assert (missed.error, missed.precision, missed.recall) == (1.0, 1.0, 0.0)
    invented = alignment_error([[(0, 0)]], gold[1:])
    assert (invented.error, invented.precision, invented.recall) == (1.0, 0.0, 1.0)
    assert alignment_error([[]], gold[1:]).error == 0.0


@pytest.mark.parametrize("link", ["1", "1-", "a-2", "1-2-3", "-1-2", "1:2", "1–2", "١-٢"])
def test_no_link(link: str) -> None:
    with pytest.raises(DataError) as error:
        parse_alignments(["0-0", f"0-1 {link}"], "words.gold")
    assert str(error.value) == (
        f'words.gold:2: "{link}" is not a link; write 0-2 for a sure one and 0p2 or 0?2 for a possible one'
    )


def test_links_stay_within_the_sentence() -> None:
    gold = GoldAlignment(frozenset(), frozenset({(2, 1)}), "words.gold:7")
    gold.require_within(3, 2)
    with pytest.raises(DataError, match=r"^words\.gold:7: link 2-1: the source has only the words 0 to 1; words are"):
        gold.require_within(2, 2)
    with pytest.raises(DataError, match=r"^words\.gold:7: link 2-1: the target has only the words 0 to 0; words are"):
        gold.require_within(3, 1)


def test_every_sentence_has_its_gold() -> None:
    with pytest.raises(ValueError, match="zip"):
        alignment_error([[]], [])
