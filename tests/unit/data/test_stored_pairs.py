"""Pairs on disk come back as they went in, without those that came before, and as a sample that the seed draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dikkat.data.stored_pairs as module
from dikkat.data.cleaning import CleaningReport
from dikkat.data.pairs import Pair, lines_of
from dikkat.data.stored_pairs import StoredPairs, side_texts, without_duplicates

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)
PAIRS = st.lists(st.builds(Pair, TEXT, TEXT, st.integers(1, 10**9), st.none()), max_size=30)


@settings(max_examples=60)
@given(PAIRS, st.sets(st.integers(0, 29)))
def test_pairs_come_back_without_those_that_are_dropped(pairs: list[Pair], dropped: set[int]) -> None:
    stored = StoredPairs.store(iter(pairs))
    assert (len(stored), list(stored), stored[:]) == (len(pairs), pairs, pairs)
    assert [stored[index] for index in range(-len(pairs), len(pairs))] == pairs * 2
    inside = sorted(index for index in dropped if index < len(pairs))
    blocks = (np.array([index]) for index in inside)
    rest = stored.without(blocks)
    assert list(rest) == [pair for index, pair in enumerate(pairs) if index not in inside]
    assert list(side_texts(rest, "target")) == [pair.target for pair in rest]
    assert side_texts(rest, "source")[::2] == [pair.source for pair in rest][::2]


def test_pairs_that_lie_far_apart_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair(f"source {number}", f"Ziel {number}", number) for number in range(1, 3001)]
    stored = StoredPairs.store(pairs)
    monkeypatch.setattr(module, "_MAX_BYTES", 100)
    kept = stored.without([np.flatnonzero(np.arange(3000) % 700)])
    assert list(kept) == pairs[::700]
    assert list(stored) == pairs


def test_a_line_tells_of_which_file_it_is() -> None:
    line_of, other = lines_of("end of more.po"), lines_of("odd\nname.tsv")
    pairs = [Pair("a", "b", line_of(12)), Pair("c", "d", 13), Pair("e", "f", other(14)), Pair("g", "h", line_of(15))]
    stored = StoredPairs.store(pairs)
    assert [pair.line for pair in stored] == [12, 13, 14, 15]
    assert [str(pair.line) for pair in stored.without([np.array([0])])] == [
        "13",
        "14 of odd\nname.tsv",
        "15 of end of more.po",
    ]
    assert str(stored[0].line) == "12 of end of more.po"


def test_a_sample_is_drawn_by_the_seed_alone(tmp_path: Path) -> None:
    pairs = [Pair(f"source {number}", f"Ziel {number}", number) for number in range(20_000)]
    stored = StoredPairs.store(pairs, tmp_path)
    first, other = list(stored.sample(2_000, 1)), list(stored.sample(2_000, 2))
    assert first == list(StoredPairs.store(pairs).sample(2_000, 1))
    assert first == sorted(first, key=lambda pair: pair.line)
    assert first != other
    # 2,000 expected, with a standard deviation of 42
    assert abs(len(first) - 2_000) < 5 * 42
    assert np.mean([pair.line for pair in first]) == pytest.approx(10_000, abs=5 * 5774 / 2_000**0.5)
    assert list(stored.sample(20_000, 1)) == pairs


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=40))
def test_the_first_of_equal_pairs_stays(texts: list[tuple[str, str]]) -> None:
    pairs = [Pair(source, target, line) for line, (source, target) in enumerate(texts, start=1)]
    report = CleaningReport(kept=len(pairs))
    kept = list(without_duplicates(StoredPairs.store(pairs), report))
    wanted = list({pair[:2]: pair for pair in reversed(pairs)}.values())
    assert kept == sorted(wanted, key=lambda pair: pair.line)
    assert report.kept == len(kept)
    assert report.dropped == len(pairs) - len(kept)
    if report.dropped:
        line = next(pair.line for pair in pairs if pair not in kept)
        assert report.rows()[0][2].startswith(f"line {line}: ")
