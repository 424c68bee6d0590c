"""Shards of pairs and labelled texts: Parquet tables, and lines packed with Zstandard."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.peak_memory import FREED_AT_ONCE
from tests.python_path import PYTHON_PATH

from dikkat.data.labelled import read_labelled
from dikkat.data.pairs import Pair
from dikkat.data.readers import read_pairs
from dikkat_runtime.errors import DataError, DikkatError, MissingInputError, UsageError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [(f"{number} dogs\nrun", f"{number} köpek koşar") for number in range(5000)]
PAIRS = [Pair(source.replace("\n", " "), target, line) for line, (source, target) in enumerate(ROWS, start=1)]


def write(path: Path, columns: dict[str, Any]) -> str:
    parquet.write_table(pa.table(columns), path, row_group_size=1700)
    return str(path)


def packed(path: Path, content: bytes) -> str:
    with path.open("wb") as file, pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(content)
    return str(path)


def test_tables_of_pairs_are_read_by_name_or_by_their_usual_columns(tmp_path: Path) -> None:
    sources, targets = zip(*ROWS, strict=True)
    vectors = [[0.5]] * len(ROWS)
    usual = write(tmp_path / "a.parquet", {"vector": vectors, "target": targets, "source": sources})
    assert list(read_pairs([usual])) == PAIRS
    named = write(
        tmp_path / "b.parquet", {"en": pa.array(sources).dictionary_encode(), "tr": targets, "id": range(5000)}
    )
    assert list(read_pairs([named], "en", "tr")) == PAIRS
    nested = write(tmp_path / "c.parquet", {"translation": [{"en": ours, "tr": theirs} for ours, theirs in ROWS]})
    assert list(read_pairs([nested], "en", "tr")) == PAIRS
    assert [str(pair.line) for pair in read_pairs([usual, usual])][::5000] == [f"1 of {usual}"] * 2


def test_labelled_tables_hold_labels_as_texts_numbers_or_lists(tmp_path: Path) -> None:
    one = write(tmp_path / "a.parquet", {"text": ["good", "bad"], "label": [1, 0]})
    assert [(row.labels, row.text) for row in read_labelled([one])] == [(("1",), "good"), (("0",), "bad")]
    some = write(tmp_path / "b.parquet", {"body": ["x", "y"], "tags": [["a", "b"], []]})
    assert [row.labels for row in read_labelled([some], ("tags", "body"))] == [("a", "b"), ()]


def test_lines_packed_with_zstandard_are_those_that_were_packed(tmp_path: Path) -> None:
    noise = random.Random(1)
    rows = [{"source": f"{noise.random()} dogs", "target": f"{noise.random()} köpek"} for _ in range(20_000)]
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    path = packed(tmp_path / "a.jsonl.zst", content)
    expected = [(row["source"], row["target"]) for row in rows]
    assert [pair[:2] for pair in read_pairs([path])] == expected
    # frames one after the other are one text
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole * 2)
    assert [pair[:2] for pair in read_pairs([path])] == expected * 2
    Path(path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.jsonl\.zst: truncated or damaged zstd"):
        list(read_pairs([path]))


MEASURED = """
import sys
from pathlib import Path
from dikkat_runtime.rows.parquet_rows import parquet_entries
from tests.peak_memory import peak_mebibytes
count = sum(1 for _ in parquet_entries(Path(sys.argv[1])))
print(count, peak_mebibytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by Linux alone")
def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    """A column of one may have gigabytes."""
    peaks = list[float]()
    for count in (4_000, 30_000):
        texts = [f"{number} {number * 7919 % 99991} " + "text " * 400 for number in range(count)]
        path = tmp_path / f"{count}.parquet"
        table = pa.table({"source": texts, "target": texts})
        parquet.write_table(table, path, row_group_size=count, compression="none", use_dictionary=False)
        root = str(Path(__file__).resolve().parents[3])
        environment = {**os.environ, **FREED_AT_ONCE, "PYTHONPATH": os.pathsep.join([PYTHON_PATH, root])}
        command = [sys.executable, "-c", MEASURED, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        rows, peak = done.stdout.split()
        assert int(rows) == count
        peaks.append(float(peak))
    # 100 MiB more are in the row group
    assert peaks[1] < peaks[0] + 30, peaks


def test_mistakes(tmp_path: Path) -> None:
    table = write(tmp_path / "a.parquet", {"en": ["one"], "tr": ["bir"], "n": [0.5]})
    null = write(tmp_path / "null.parquet", {"source": ["one", None], "target": ["bir", "iki"]})
    empty = write(
        tmp_path / "empty.parquet", {"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}
    )
    half = tmp_path / "half.parquet"
    half.write_bytes(Path(table).read_bytes()[:-9])
    cases: list[tuple[type[DikkatError], str, tuple[Any, ...]]] = [
        (
            DataError,
            "1: neither source and target nor src and tgt are keys; name both with",
            (table,),
        ),
        (DataError, '1: no key is called "fr"', (table, "en", "fr")),
        (
            UsageError,
            "for Parquet, name the column of the source and that of the target",
            (table, "en", None),
        ),
        (DataError, '2: "source" must be a text, not NoneType', (null,)),
        (DataError, "empty.parquet: the table has no rows", (empty,)),
        (DataError, "half.parquet: damaged, or not Parquet", (str(half),)),
        (MissingInputError, "none.parquet: there is no such file", (str(tmp_path / "none.parquet"),)),
    ]
    for kind, message, (name, *columns) in cases:
        with pytest.raises(kind) as complaint:
            list(read_pairs([name], *columns))
        assert message in str(complaint.value)
        assert "\n" not in str(complaint.value)


def test_without_pyarrow_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path / "a.parquet", {"source": ["one"], "target": ["bir"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"a\.parquet: needs pyarrow; pip install 'dikkat-runtime\[parquet\]'"):
        list(read_pairs([table]))
    # what is packed with Zstandard cannot be unpacked then
    if sys.version_info < (3, 14):
        path = packed(tmp_path / "a.tsv.zst", b"one\tbir\n")
        with pytest.raises(DataError, match="is compressed with zstd, not text; pip install pyarrow, which unpacks it"):
            list(read_pairs([path]))
