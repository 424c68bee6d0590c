"""The sentences that the package ships are those of the generator, and the split is the one that scores stand for."""

from __future__ import annotations

import gzip
import hashlib
from itertools import chain
from pathlib import Path

import pytest
from tools.phrasebook import generate

from dikkat.lessons import phrasebook as shipped
from dikkat.lessons.phrasebook import COLUMNS, DATA, MAX_PAIRS, PAIRS, languages_of_pair, phrasebook, phrasebook_split
from dikkat_runtime.errors import DataError, UsageError

FINGERPRINTS = {
    "en-fr": "8500ee49fff9f1ef35b5a4773001f089f5d2bf02c919e713689f37d3fbce6e4e",
    "en-tr": "fa51343ac73e2adbcb7d435571b370dd063d13b40373cb3b55972b3afbe0ce5b",
    "tr-en": "6ca1be8f67f86bb39c524979b1b7234de2f880664aa74d6008e18cdd2b543195",
}
"""SHA-256 of the three parts of the split, as the generator wrote them when the published scores were measured."""


@pytest.mark.parametrize("pair", PAIRS)
def test_the_published_split_is_what_scores_were_measured_on(pair: str) -> None:
    lines = (
        f"{number}\t{source}\t{target}\t{link and tuple(link)}"
        for source, target, number, link in chain(*phrasebook_split(pair))
    )
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == FINGERPRINTS[pair]


@pytest.mark.parametrize("count", [1000, pytest.param(MAX_PAIRS, marks=pytest.mark.nightly)])
def test_the_table_is_what_the_generator_writes(count: int) -> None:
    lines = gzip.decompress(DATA.read_bytes()).decode().splitlines()
    made = ["\t".join(row) for row in generate.rows(count)]
    assert lines[0] == "\t".join(COLUMNS)
    assert lines[1 : len(made) + 1] == made
    assert count < MAX_PAIRS or len(lines) == len(made) + 1


@pytest.mark.parametrize("pair", PAIRS)
def test_the_reader_gives_what_the_generator_gives(pair: str) -> None:
    assert phrasebook(pair, 1000) == generate.phrasebook(pair, 1000)
    assert phrasebook_split(pair, 500, 10, 20) == generate.phrasebook_split(pair, 500, 10, 20)


@pytest.mark.parametrize("pair", PAIRS)
def test_there_are_as_many_pairs_as_may_be_asked_for(pair: str) -> None:
    assert len({phrase.source for phrase in phrasebook(pair, MAX_PAIRS)}) == MAX_PAIRS


@pytest.mark.parametrize("cut", [10, 1000, 500_000])
def test_a_damaged_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    path = tmp_path / "phrasebook.tsv.gz"
    path.write_bytes(DATA.read_bytes()[:cut])
    monkeypatch.setattr(shipped, "DATA", path)
    monkeypatch.setattr(shipped, "_table", shipped._table.__wrapped__)
    with pytest.raises(DataError, match=r"phrasebook\.tsv\.gz: cannot be read: .*; reinstall dikkat$"):
        phrasebook("fr", 1)


def test_an_unknown_pair_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match='no pair "de"; choose one of en-fr, en-tr, tr-en'):
        phrasebook("de")
    with pytest.raises(UsageError, match='no pair "en-frr"; did you mean "en-fr"'):
        phrasebook_split("en-frr")
    with pytest.raises(UsageError, match='no pair "fr-en"'):
        languages_of_pair("fr-en")


def test_a_language_alone_is_what_english_is_translated_into() -> None:
    assert phrasebook("fr", 50) == phrasebook("en-fr", 50)
    assert languages_of_pair("tr") == ("en", "tr")


@pytest.mark.parametrize("count", [0, -3, MAX_PAIRS + 1])
def test_a_count_out_of_range_is_a_usage_error(count: int) -> None:
    with pytest.raises(UsageError, match=f"count must be between 1 and {MAX_PAIRS} pairs .* but it is {count}"):
        phrasebook("fr", count)


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_part_out_of_range_is_a_usage_error(part: str) -> None:
    with pytest.raises(UsageError, match=f"{part} must be between 1 and {MAX_PAIRS}"):
        phrasebook_split("tr", **{part: 0})
