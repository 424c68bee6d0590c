"""Corrections: what a person has put right comes back so, in lines and documents, until it is removed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.runtime.runs import translator_run

from dikkat_runtime import Translator
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.corrections import FILE_NAME, Corrections


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one's own to correct."""
    return translator_run(tmp_path / "run")


def test_exact_repeats_come_back_as_corrected_and_all_else_as_before(run: Path) -> None:
    # no two lines share as many words as near ones do
    lines = [f"w{number} x{number} cat y{number}." for number in range(20)]
    before = [each.text for each in Translator.load(run).translate(lines)]
    translator, corrections = Translator.load(run), Corrections(run)
    for number in range(0, 20, 2):
        corrections.add(lines[number], f"Doğrusu {number}.")
    repeated = [*lines, *(f"  {line.replace(' ', '  ')} " for line in lines[::2])]
    result = [item.text for item in translator.translate(repeated)]
    assert result[0:20:2] == [f"Doğrusu {number}." for number in range(0, 20, 2)]
    assert result[20:] == result[0:20:2]
    assert result[1:20:2] == before[1::2]
    translator.corrections = None
    assert [item.text for item in translator.translate(lines)] == before


def test_sentences_of_documents_are_corrected(run: Path) -> None:
    translator = Translator.load(run)
    Corrections(run).add("The dog sleeps.", "İt uyur.")

    def translate(texts: list[str]) -> list[str]:
        return [item.text for item in translator.translate(texts)]

    page = b"<p>The dog sleeps.</p>\n<p>Where are my keys? The <i>dog</i> sleeps.</p>"
    written = translate_document(page, "a.html", translate, options=Options("en", "tr")).data.decode()  # type: ignore[arg-type]
    assert written.startswith("<p>İt uyur.</p>")
    assert written.count("İt") == 2


def test_corrections_are_listed_replaced_and_removed(run: Path) -> None:
    corrections = Corrections(run)
    assert corrections.get("a") is None
    assert corrections.add("a", "b") is None
    assert corrections.add(" a ", "c") == "b"
    assert corrections.add("d", "e") is None
    assert Corrections(run).pairs() == [("a", "c"), ("d", "e")]
    corrections.remove("a")
    assert len(Corrections(run)) == 1
    with pytest.raises(UsageError, match='has no correction of "a"'):
        corrections.remove("a")
    for source, target in (("", "x"), ("x", "\n"), ("x\ny", "z")):
        with pytest.raises(UsageError, match="must be one line of text"):
            corrections.add(source, target)


def test_nothing_is_lost_where_many_correct_at_once(run: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: Corrections(run).add(f"text {number}", f"metin {number}"), range(40)))
    assert sorted(Corrections(run).pairs()) == sorted((f"text {number}", f"metin {number}") for number in range(40))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "1",
        "null",
        '[{"source": "x"}]',
        "[1]",
        "[" * 200_000,
        "[" * 100 + "]" * 100,
        '[{"source": "x", "target": "\\ud800"}]',
        '[{"source": "x", "target": 1}]',
        '[{"source": "x", "target": ["y"]}]',
        '[{"source": "x", "target": "two\\nlines"}]',
        '[{"source": " ", "target": "y"}]',
        '[{"source": "x", "target": "y", "target": "z"}]',
        '[{"source": "x", "target": NaN}]',
    ],
)
def test_a_damaged_file_is_refused_in_one_line(run: Path, content: str) -> None:
    (run / FILE_NAME).write_text(content)
    with pytest.raises(DataError, match="repair it, or remove it"):
        Corrections(run).pairs()


def test_the_file_is_plain_json(run: Path) -> None:
    Corrections(run).add("a", "ş")
    assert json.loads((run / FILE_NAME).read_text("utf-8")) == [{"source": "a", "target": "ş"}]


def test_a_source_is_the_same_in_other_white_space_and_composition_and_in_no_other_way(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    corrections.add("L'e\u0301te\u0301 est  la\u00a0.", "Yaz geldi.")
    for same in ("L'\u00e9t\u00e9 est la .", " L'e\u0301t\u00e9\test la . "):
        assert corrections.get(same) == "Yaz geldi."
    for other in ("L'ete est la .", "l'\u00e9t\u00e9 est la .", "L'\u00e9t\u00e9 est la."):
        assert corrections.get(other) is None
    assert corrections.add("L'\u00e9t\u00e9 est la .", "Yaz burada.") == "Yaz geldi."
    assert len(corrections) == 1


def test_a_correction_that_is_made_anew_is_the_newest(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    for source, target in (("a", "1"), ("b", "2"), ("a", "3")):
        corrections.add(source, target)
    assert corrections.pairs() == [("b", "2"), ("a", "3")]


def test_a_table_of_corrections_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    corrections.add("one", "bir")
    with pytest.raises(UsageError, match="target"):
        corrections.add_all([("one", "tek"), ("two", "iki"), ("three", "üç\ndört")])
    assert Corrections(tmp_path).pairs() == [("one", "bir")]
    assert corrections.add_all([("two", "iki"), ("one", "tek"), ("one", "biri")]) == [None, "bir", "tek"]
    assert Corrections(tmp_path).pairs() == [("two", "iki"), ("one", "biri")]


def test_what_another_process_writes_is_seen_though_the_file_is_as_long(tmp_path: Path) -> None:
    mine, fixed = Corrections(tmp_path), Corrections(tmp_path)
    mine.add("a", "1")
    assert fixed.pairs() == [("a", "1")]
    frozen = Corrections(tmp_path, is_fixed=True)
    Corrections(tmp_path).add("a", "2")
    assert mine.pairs() == fixed.pairs() == [("a", "2")]
    frozen.refresh()
    assert frozen.get("a") == "1"
