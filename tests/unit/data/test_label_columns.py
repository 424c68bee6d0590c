"""Which columns are label and text, where nobody says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dikkat.data.labelled import read_labelled

ROWS = [("pos" if n % 2 else "neg", f"the film number {n} was seen by all of us") for n in range(20)]


def write(path: Path, rows: Sequence[Sequence[str]], delimiter: str = "\t") -> list[str]:
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows), encoding="utf-8")
    return [str(path)]


def found(data: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    notes: list[str] = []
    return [(item.label, item.text) for item in read_labelled(data, note=notes.append)], notes


def test_the_usual_order_needs_no_word(tmp_path: Path) -> None:
    assert found(write(tmp_path / "data.tsv", ROWS)) == (ROWS, [])


def test_text_before_label_is_noticed_and_said(tmp_path: Path) -> None:
    data = write(tmp_path / "data.tsv", [row[::-1] for row in ROWS])
    assert found(data) == (
        ROWS,
        [
            f"{data[0]}: label = column 2 (2 different, such as “neg”), text = column 1, by what is in them; else name"
            " them with --label-column and --text-column"
        ],
    )


@pytest.mark.parametrize("names", [("text", "label"), ("Review", "Sentiment"), ("metin", "etiket")])
def test_a_header_is_no_text_and_names_the_columns(tmp_path: Path, names: tuple[str, str]) -> None:
    data = write(tmp_path / "data.csv", [names, *(row[::-1] for row in ROWS)], ",")
    rows, notes = found(data)
    assert rows == ROWS
    assert notes == [
        f"{data[0]}: columns separated by ',', a header row (“{names[0]}”, “{names[1]}”), label = column 2, text ="
        " column 1"
    ]


def test_a_number_of_the_row_is_neither(tmp_path: Path) -> None:
    data = write(tmp_path / "data.csv", [(str(n), text, label) for n, (label, text) in enumerate(ROWS)], ";")
    rows, (note,) = found(data)
    assert rows == ROWS
    assert note.endswith("label = column 3, text = column 2")


def test_of_aligned_files_the_texts_may_come_first(tmp_path: Path) -> None:
    for name, side in (("labels", 0), ("texts", 1)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{row[side]}\n" for row in ROWS), encoding="utf-8")
    labels, texts = str(tmp_path / "labels.txt"), str(tmp_path / "texts.txt")
    assert found([labels, texts]) == (ROWS, [])
    assert found([texts, labels]) == (
        ROWS,
        [f"{labels}: taken for the labels, and {texts} for the texts, by what is in them"],
    )


def test_many_classes_and_few_texts_stay_as_they_are(tmp_path: Path) -> None:
    short = [("a very long name of a class", "ok"), ("another long name of one", "no")] * 6
    assert found(write(tmp_path / "short.tsv", short))[0] == short
    few = [(f"class {n}", "one text") for n in range(5)]
    assert found(write(tmp_path / "few.tsv", few))[0] == few
