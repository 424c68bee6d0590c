"""The data doctor on a corpus with planted faults: precision and recall of each kind, and where shifts begin."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.unit.data.faults.planted import PER_KIND, planted

from dikkat.data.faults.check import check_pairs, shift_lines, without_faults
from dikkat.data.faults.files import CheckRequest, check_files, left_out_path, write_cleaned
from dikkat.data.faults.pair_checks import (
    NAMES,
    Fault,
    is_mojibake,
    numbers_differ,
)
from dikkat.data.pairs import Pair
from dikkat.explain.report.run_page import data_page, data_report
from dikkat_runtime.text.pair_faults import is_copy, placeholders_differ, sentences_differ

MIN_VALUE = 0.95


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_planted_faults_are_found_and_little_else(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = planted(seed)
    check = check_pairs(corpus.pairs, ("en", "tr"), corpus.held_out)
    there, result = np.array(corpus.faults), check.faults
    with capsys.disabled():
        print()
        for fault, name in NAMES.items():
            hits = int(((there == fault) & (result == fault)).sum())
            precision, recall = hits / max(1, int((result == fault).sum())), hits / int((there == fault).sum())
            print(f"{name:36} precision {precision:.3f} recall {recall:.3f}")
            assert int((there == fault).sum()) >= PER_KIND
            assert min(precision, recall) >= MIN_VALUE, name
    assert all(abs(line - expected) <= 3 for (_, line), expected in zip(check.shifts, corpus.shift_lines, strict=True))
    assert len(check.shifts) == len(corpus.shift_lines)
    assert {abs(shift.lines) for shift, _ in check.shifts} == {1}
    assert all(line.startswith("from line ") for line in shift_lines(check))


def test_a_clean_corpus_is_left_alone() -> None:
    corpus = planted(3)
    clean = [pair for pair, fault in zip(corpus.pairs, corpus.faults, strict=True) if not fault]
    check = check_pairs(clean, ("en", "tr"))
    assert sum(check.counts.values()) <= 0.005 * len(clean), check.counts
    assert not check.shifts


def test_languages_are_guessed_and_the_same_pairs_come_back_with_their_faults() -> None:
    corpus = planted(1)
    check = check_pairs(corpus.pairs)
    assert check.languages == ("en", "tr")
    again = list(without_faults(corpus.pairs, check))
    assert [pair for pair, _ in again] == corpus.pairs
    assert sum(fault != Fault.NONE for _, fault in again) == sum(check.counts.values())


@pytest.mark.parametrize(("text", "expected"), [
    ("CafÃ©", True), ("TÃ¼rkÃ§e", True), ("Ã–ÄŸretmen", True), ("donâ€™t", True), ("Ã‡ok gÃ¼zel", True),
    ("Âge", False), ("Ünlü", False), ("naïve façade", False), ("Ångström", False), ("SÃO PAULO", False),
])  # fmt: skip
def test_mojibake(text: str, expected: bool) -> None:
    assert is_mojibake(text) == expected


@pytest.mark.parametrize(("source", "target", "expected"), [
    ("It costs 1,000.50.", "1.000,50 tutar.", False), ("At 12:30.", "12.30'da.", False), ("3 dogs", "üç köpek", False),
    ("In 1997.", "1998'de.", True), ("In 1997.", "Geçen yıl.", True), ("5 of 17", "17'nin 6'sı", True),
])  # fmt: skip
def test_numbers(source: str, target: str, expected: bool) -> None:
    assert numbers_differ(source, target) == expected


@pytest.mark.parametrize(("source", "target", "expected"), [
    ("Hi {name}", "Selam {name}", False), ("Hi {name}", "Selam {ad}", True), ("%s of %d", "%d %s", False),
    ("100 %", "yüzde 100", False), ("Write to a@b.org", "a@b.com'a yaz", True),
])  # fmt: skip
def test_placeholders(source: str, target: str, expected: bool) -> None:
    assert placeholders_differ(source, target) == expected


def test_sentences_and_copies() -> None:
    assert sentences_differ("One dog sleeps. Two cats run away. Three birds sing.", "Bir köpek uyuyor.")
    assert not sentences_differ("Hi, Tom.", "Merhaba. Tom.")
    assert is_copy("The dog sleeps.", "The dog sleeps")
    assert not is_copy("New York", "New York")


def test_few_pairs_are_looked_at_too() -> None:
    check = check_pairs([Pair("a", "", 1), Pair("b", "c", 2)])
    assert check.counts == {Fault.EMPTY: 1}
    assert "nothing on one side. 1 pair.<" in data_page("few", check)
    assert check_pairs([]).pairs == 0


def test_files_are_checked_and_written_again_without_their_faults(tmp_path: Path) -> None:
    corpus = planted(1)
    rows = [f"{pair.source}\t{pair.target}\n".encode() for pair in corpus.pairs]
    (tmp_path / "train.en-tr.tsv").write_bytes(b"".join([*rows, b"caf\xe9 here\tburada kafe\n"]))
    held_out = "".join(f"{pair.source}\t{pair.target}\n" for pair in corpus.held_out)
    (tmp_path / "valid.tsv").write_text(held_out, encoding="utf-8")
    request = CheckRequest([str(tmp_path / "train.en-tr.tsv")], [str(tmp_path / "valid.tsv")])
    check, out = check_files(request), tmp_path / "clean.tsv"
    assert check.languages == ("en", "tr")
    assert check.faults[-1] == Fault.ENCODING
    assert len(check.examples[Fault.SHIFTED]) == 20
    write_cleaned(request, check, out)
    kept, left = out.read_bytes().splitlines(), left_out_path(out).read_text("utf-8").splitlines()
    assert len(kept) + len(left) - 1 == check.pairs
    assert set(kept) <= {row.rstrip(b"\n") for row in rows}
    assert Counter(line.split("\t")[0] for line in left[1:]) == {NAMES[kind]: n for kind, n in check.counts.items()}
    report, page = "\n".join(data_report(check)), data_page("train", check)
    for name in (NAMES[kind] for kind in check.counts):
        assert name in report
        assert name.capitalize() in page
    lines = [
        int(line) for line in re.findall(r"from line ([\d,]+) on, \d+ targets belong to the source 1 line", report)
    ]
    assert len(lines) == len(corpus.shift_lines)
    assert all(abs(line - expected) <= 3 for line, expected in zip(lines, corpus.shift_lines, strict=True))
    assert "default-src 'none'" in page
    assert f"<b>{check.pairs:,}</b>pairs" in page, "the number is the large one"
