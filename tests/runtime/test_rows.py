"""One file, one answer: training, many files and documents read the same texts out of the same odd table."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dikkat.data.readers import read_pairs
from dikkat_runtime.documents.formats import require_format
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError
from dikkat_runtime.rows.contract import Column, format_of
from dikkat_runtime.rows.dialect import find_dialect
from dikkat_runtime.shards.work import Job, Shard
from dikkat_runtime.shards.writing import open_rows

ROWS = [(f"A cat, no. {n}{'; white' * (n % 2)}.", f"Un chat n° {n}") for n in range(12)]


def _trained(path: Path) -> list[str]:
    return [pair.source for pair in read_pairs([str(path)])]


class _Model:
    columns = (Column("translation", "text"),)

    def line_of(self, text: str, values: object) -> str:
        return text


def _answered(path: Path, column: str = "1") -> list[str]:
    known = format_of(path)
    assert known is not None
    with path.open("rb") as raw:
        job = Job(run=path, task="translate", column=column)
        reader = open_rows(raw, Shard(path, path, known), job, _Model())  # type: ignore[arg-type]
        chunks = list(reader.chunks())
    failed = [failure.reason for chunk in chunks for failure in chunk.failures]
    if failed:
        raise DataError("{what}", failed[0])
    return [text for chunk in chunks for text in chunk.texts if text is not None]


def _in_document(path: Path, column: str = "1") -> list[str]:
    data = path.read_bytes()
    document = require_format(str(path), data).read(data, str(path), Options(source_column=column, target_column="9"))
    return ["".join(map(str, segment.content)) for segment in document.segments]


DOORS: dict[str, Callable[[Path], list[str]]] = {
    "training": _trained,
    "many files": _answered,
    "documents": _in_document,
}


def _table(delimiter: str, rows: Sequence[tuple[str, ...]], *, quoted: bool = True, end: str = "\n") -> str:
    def cell(text: str) -> str:
        if quoted and any(mark in text for mark in (delimiter, '"', "\n")):
            return '"' + text.replace('"', '""') + '"'
        return text

    return "".join(delimiter.join(map(cell, row)) + end for row in rows)


_SPOKEN = [*ROWS, ('"Hi," she', "x")]
_FEW = [("a, b, c, d, e", "x"), ("f", "y"), ("g", "z")]
_QUOTED = [*ROWS, ("two\nlines", "deux\nlignes"), ('she said "hi"', "x")]
ODD: dict[str, tuple[str, str, Sequence[tuple[str, ...]]]] = {
    "tabs": ("a.tsv", _table("\t", ROWS, quoted=False), ROWS),
    "tabs in .csv": ("a.csv", _table("\t", ROWS, quoted=False), ROWS),
    "commas": ("a.csv", _table(",", ROWS), ROWS),
    "commas in .tsv": ("a.tsv", _table(",", ROWS), ROWS),
    "semicolons": ("a.csv", _table(";", ROWS), ROWS),
    "bars": ("a.csv", _table("|", ROWS), ROWS),
    "line breaks": ("a.csv", _table(",", _QUOTED), _QUOTED),
    "line breaks in .tsv": ("a.tsv", _table("\t", _QUOTED), _QUOTED),
    "marks of speech in .tsv": ("a.tsv", _table("\t", _SPOKEN, quoted=False), _SPOKEN),
    "byte-order mark": ("a.csv", "\ufeff" + _table(";", ROWS), ROWS),
    "returns": ("a.csv", _table(";", ROWS, end="\r\n"), ROWS),
    "header": ("a.csv", _table(",", [("source", "target"), *ROWS]), ROWS),
    "header of languages": ("a.csv", _table(",", [("English", "French"), *ROWS]), ROWS),
    "empty column": ("a.csv", _table(";", [(*row, "") for row in ROWS]), ROWS),
    "empty lines": ("a.csv", _table(",", ROWS).replace("\n", "\n\n"), ROWS),
    "many commas in few rows": ("a.csv", _table(";", _FEW), _FEW),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_the_same_texts(door: str, kind: str, tmp_path: Path) -> None:
    name, content, rows = ODD[kind]
    path = tmp_path / name
    path.write_bytes(content.encode())
    texts = [" ".join(text.split()) for text in DOORS[door](path)]
    assert texts == [" ".join(row[0].split()) for row in rows]


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_row_with_a_separator_too_many(door: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"cat {n},chat\n" for n in range(12)) + "black, white,noir\n", encoding="utf-8")
    with pytest.raises(DataError, match="3 columns"):
        DOORS[door](path)


def test_one_column_is_a_table_where_one_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{text}\n" for text, _ in [("text", ""), *((f"cat {n}", "") for n in range(12))]))
    assert _answered(path, "text") == _in_document(path, "text") == [f"cat {n}" for n in range(12)]
    with pytest.raises(DataError, match="1 column"):
        _trained(path)


def test_a_table_of_few_uneven_rows_has_its_likeliest_separator() -> None:
    dialect = find_dialect(["id;text", "1;a, b", "2", "3;x;y, z"], "a.csv")
    assert (dialect.delimiter, dialect.num_columns) == (";", 0)
    assert find_dialect(["one", "two"], "a.tsv").delimiter == "\t"


PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_tables_are_read_by_training_and_by_many_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACKERS[suffix](_table(";", ROWS).encode()))
    assert _trained(path) == [source for source, _ in ROWS]
    assert _answered(path) == [source for source, _ in ROWS]
