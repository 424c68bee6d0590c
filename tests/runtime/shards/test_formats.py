"""Rows of every format: what surrounds the answers stays, byte by byte, and a row that fails is told and kept."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel, job

from dikkat_runtime.errors import DataError, DikkatError, DiskError, MissingInputError, StoppedError, UsageError
from dikkat_runtime.rows.contract import Format, Values, format_of
from dikkat_runtime.rows.parquet_rows import ParquetReader
from dikkat_runtime.shards.work import Shard
from dikkat_runtime.shards.writing import sample_shard, write_shard

TEXTS = ["küçük kedi", "", 'a, "b"', "  ", "çok\tgüzel"]


def answer(path: Path, out: Path, *, during: Callable[[], object] = lambda: None, **options: Any) -> Shard:
    """Write the output of a file in this process; `during` is called between its rows and its end."""
    asked = job(**options)
    known = format_of(path, asked.format)
    assert known is not None
    shard = Shard(path, out / path.name, known, path.stat().st_size)
    write_shard(shard, asked, ShoutingModel(asked), FINGERPRINT, lambda rows, fraction: during())
    return shard


def failures(shard: Shard) -> list[tuple[int, str]]:
    rows = map(json.loads, shard.errors.read_text(encoding="utf-8").splitlines())
    return [(row["row"], row["reason"]) for row in rows]


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntw\xffo\n\n" + b"x" * 1_000_001 + b"\nlast\x0c\xe2\x80\xa8line")
    shard = answer(path, tmp_path / "out")
    assert shard.output.read_bytes() == "ONE\n\n\n\nLAST\x0c\u2028LINE\n".encode()
    assert failures(shard) == [(2, "byte 0xFF is not valid UTF-8"), (4, "the line has more than 1,000,000 bytes")]
    record = json.loads(shard.record.read_text())
    assert (record["rows"], record["empty"], record["failed"]) == (5, 1, 2)


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_lines_are_the_same_bytes_each_time(packing: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow") if packing == "zst" else None
    content = "".join(f"line {n}\n" for n in range(10_000)).encode()
    packed = gzip.compress(content) if pyarrow is None else pyarrow.compress(content, "zstd", asbytes=True)
    path = tmp_path / f"a.txt.{packing}"
    path.write_bytes(packed + packed)
    first, second = (answer(path, tmp_path / out).output.read_bytes() for out in ("1", "2"))
    assert first == second
    unpacked = (
        gzip.decompress(first) if pyarrow is None else pyarrow.CompressedInputStream(io.BytesIO(first), "zstd").read()
    )
    assert unpacked == content.upper() * 2
    for damaged in (packed[:-9], b"no such file", packed[:30] + bytes(30) + packed[60:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.txt\.\w+: (truncated or )?damaged"):
            answer(path, tmp_path / "3")
        assert [item.name for item in (tmp_path / "3").iterdir()] == []


def test_objects_of_json_keep_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [f'{{"id": {n:.2f}, "text" : {json.dumps(text)},"deep":{{"a":[1e3]}} }}' for n, text in enumerate(TEXTS)]
    odd = ['{"id": 1, "text": null}', "", "{", "[1]", "{}", '{"text": 3}', '{"text": "x", "translation": "y"}', "\xff"]
    path.write_bytes("\r\n".join([*rows, *odd]).encode("latin-1", "xmlcharrefreplace"))
    shard = answer(path, tmp_path / "out")
    written = shard.output.read_bytes().decode().split("\r\n")
    for row, line, text in zip(rows, written, TEXTS, strict=False):
        assert json.loads(line)["translation"] == text.upper()
        assert line == f'{row[:-2]}, "translation": {json.dumps(text.upper(), ensure_ascii=False)}}}'
    null = '{"translation": null}'
    assert written[len(rows) :] == [
        '{"id": 1, "text": null, "translation": null}', "", null, null, null,
        '{"text": 3, "translation": null}', '{"text": "x", "translation": "y"}', null,
    ]  # fmt: skip
    assert [row for row, _ in failures(shard)] == [8, 9, 10, 11, 12, 13]


def test_the_byte_order_mark_of_objects_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "x"}\n')
    assert answer(path, tmp_path / "out").output.read_bytes() == b'\xef\xbb\xbf{"text": "x", "translation": "X"}\n'


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_is_refused_as_a_whole(name: str, mark: bytes, tmp_path: Path) -> None:
    """Most of its lines would pass for UTF-8 with zeros in it."""
    (tmp_path / name).write_bytes(mark + "one\ntwo\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=f"{name}: looks like UTF-16; convert with iconv -f UTF-16 -t UTF-8"):
        answer(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize(("delimiter", "suffix"), [("\t", "tsv"), (",", "csv"), (";", "csv")])
def test_tables_keep_their_bytes(delimiter: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    texts = [text.replace("\t", " ") for text in TEXTS]
    if suffix == "csv":
        texts.append("two\nlines")
    buffer = io.StringIO(newline="")
    if suffix == "csv":
        csv.writer(buffer, delimiter=delimiter).writerows(
            [["id", "text", "n"], *([n, t, "1.50"] for n, t in enumerate(texts))]
        )
    else:
        buffer.write(
            "".join(f"{delimiter.join(row)}\r\n" for row in [["id", "text", "n"], *(["7", t, "1.50"] for t in texts)])
        )
    content = buffer.getvalue().encode()
    path.write_bytes(content + b"short" + delimiter.encode() + b"row\r\n\r\n" + b"a,b;c\td;e,f\tg;h,i\tj;k\r\n")
    shard = answer(path, tmp_path / "out")
    lines = shard.output.read_bytes().decode()
    if suffix == "csv":
        rows = list(csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter))
    else:
        rows = [line.split("\t") for line in lines.split("\r\n")[:-1]]
    assert rows[0] == ["id", "text", "n", "translation"]
    assert [row[3] for row in rows[1 : len(texts) + 1]] == [text.upper() for text in texts]
    assert len(rows[len(texts) + 1]) == 4
    # what is left without the new cells is what was there
    assert shard.output.read_bytes().startswith(content.split(b"\r\n")[0])
    for before, after in zip(content.split(b"\r\n")[1:-1], lines.encode().split(b"\r\n")[1:], strict=False):
        assert after.startswith(before + delimiter.encode()) or b'"two' in before
    assert [row for row, _ in failures(shard)] == [len(texts) + 1, len(texts) + 3]


def test_a_table_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("1\tone\n2\ttwo", encoding="utf-8")
    assert answer(path, tmp_path / "out", column="2").output.read_text() == "1\tone\tONE\n2\ttwo\tTWO"
    with pytest.raises(DataError, match=r"a\.tsv: has no column 3, only 2 columns; --column counts from 1"):
        answer(path, tmp_path / "out3", column="3")


def test_parquet_keeps_columns_and_their_types(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    count = 20_000
    texts = [None if n % 7 == 0 else f"text {n}" for n in range(count)]
    table = pa.table(
        {
            "id": range(count),
            "text": pa.array(texts).dictionary_encode(),
            "deep": [{"a": [n, None]} for n in range(count)],
            "when": pa.array(range(count), pa.timestamp("us", "Europe/Istanbul")),
        }
    ).replace_schema_metadata({"maker": "test"})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path, row_group_size=3_000, compression="zstd")
    shard = answer(path, tmp_path / "out")
    written = parquet.read_table(shard.output)
    assert written.drop(["translation"]).equals(parquet.read_table(path))
    assert written["translation"].to_pylist() == [None if text is None else text.upper() for text in texts]
    metadata = parquet.ParquetFile(shard.output).metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert json.loads(shard.record.read_text())["empty"] == sum(text is None for text in texts)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"a\.parquet: damaged"):
        answer(path, tmp_path / "2")


def test_of_two_parquet_columns_of_one_name_the_first_is_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    table = pa.Table.from_arrays([pa.array(["first"]), pa.array(["second"])], names=["text", "text"])
    parquet.write_table(table, tmp_path / "a.parquet")
    shard = answer(tmp_path / "a.parquet", tmp_path / "out")
    columns = parquet.ParquetFile(shard.output).read().columns
    assert [column.to_pylist() for column in columns] == [["first"], ["second"], ["FIRST"]]


def test_a_text_of_parquet_with_a_line_that_no_sentence_has_fails(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    texts = ["one", "x" * 1_000_001, "line\n" * 300_000, None]
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    shard = answer(tmp_path / "a.parquet", tmp_path / "out")
    assert failures(shard) == [(2, "a line of the text has more than 1,000,000 characters")]
    written = parquet.read_table(shard.output)["translation"].to_pylist()
    assert written == ["ONE", None, "LINE\n" * 300_000, None]
    record = json.loads(shard.record.read_text())
    assert (record["rows"], record["empty"], record["failed"]) == (4, 1, 1)


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "tsv"])
def test_large_lines_are_read_a_few_at_a_time(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what is large is no text to work on, or too long to be one."""
    from dikkat_runtime.rows import line_rows

    monkeypatch.setattr(line_rows, "CHUNK_BYTES", 10_000)
    path = tmp_path / f"a.{suffix}"
    large = "x" * 1_000
    if suffix == "txt":
        monkeypatch.setattr(line_rows, "MAX_LINE_LENGTH", 500)
        path.write_text(f"{large}\n" * 50)
    elif suffix == "jsonl":
        path.write_text(f'{{"html": "{large}", "text": "y"}}\n' * 50)
    else:
        path.write_text("html\ttext\n" + f"{large}\ty\n" * 50)
    rows = list[int]()
    shard = answer(path, tmp_path / "out", during=lambda: rows.append(0))
    assert len(rows) > 4
    assert json.loads(shard.record.read_text())["rows"] == 50


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.zst"])
def test_a_packed_file_without_a_byte_is_damaged(name: str, tmp_path: Path) -> None:
    """A packed file of no rows has some twenty bytes."""
    if name.endswith("zst"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=f"{name}: damaged .it is empty, like a failed download."):
        answer(tmp_path / name, tmp_path / "out")
    (tmp_path / "a.txt").touch()
    assert answer(tmp_path / "a.txt", tmp_path / "out").output.read_bytes() == b""


def test_large_rows_of_parquet_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as whole books, or pictures with a line of text."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    from dikkat_runtime.rows import parquet_rows

    monkeypatch.setattr(parquet_rows, "CHUNK_BYTES", 10_000)
    pictures = [bytes([number]) * 1_000 for number in range(50)]
    table = pa.table({"picture": pictures, "text": [f"line {number}" for number in range(50)]})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="none")
    sizes = list[int]()
    answers = ShoutingModel.answers

    def counted(model: ShoutingModel, texts: Sequence[str]) -> list[Values]:
        sizes.append(len(texts))
        return answers(model, texts)

    monkeypatch.setattr(ShoutingModel, "answers", counted)
    shard = answer(tmp_path / "a.parquet", tmp_path / "out")
    assert max(sizes) < 10
    written = parquet.read_table(shard.output)
    assert written.drop(["translation"]).equals(table)
    assert written["translation"].to_pylist() == [f"LINE {number}" for number in range(50)]


def test_one_group_of_large_rows_leaves_the_chunks_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    from dikkat_runtime.rows import parquet_rows

    monkeypatch.setattr(parquet_rows, "CHUNK_BYTES", 300_000)
    path, schema = tmp_path / "a.parquet", pa.schema([("text", pa.string()), ("page", pa.binary())])
    short, page = [f"line {number}" for number in range(3_000)], b"p" * 400_000
    with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for texts, pages in ((short, [b""] * 3_000), (short, [b""] * 3_000), ([], []), (["a page"], [page])):
            writer.write_table(pa.table({"text": texts, "page": pages}, schema=schema))

    with path.open("rb") as file:
        chunks = [chunk.texts for chunk in ParquetReader(file, path, "text", []).chunks()]

    # short texts are answered together, whatever page comes after them
    assert [len(texts) for texts in chunks] == [4_096, 1_904, 1]
    assert [text for texts in chunks for text in texts] == [*short, *short, "a page"]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "tsv"])
def test_columns_that_are_not_there_or_not_new(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    rows = [{"id": "1", "one": "x", "two": "y"}, {"id": "2", "one": "x", "two": "y"}]
    if suffix == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        mark = "\t" if suffix == "tsv" else ","
        path.write_text("".join(f"{mark.join(row)}\n" for row in [list(rows[0]), *(row.values() for row in rows)]))
    with pytest.raises(
        UsageError, match="which column is the text\\? Name one with --column; its columns are: id, one, two"
    ):
        answer(path, tmp_path / "1")
    with pytest.raises(DataError, match="has no column three; its columns are: id, one, two"):
        answer(path, tmp_path / "2", column="three")
    with pytest.raises(UsageError, match="already has a column two; give another --output-column"):
        answer(path, tmp_path / "3", column="one", output_column="two")
    for out in ("1", "2", "3"):
        assert not list((tmp_path / out).glob("*")) if (tmp_path / out).exists() else True


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")

    def append() -> None:
        with path.open("a") as file:
            file.write("two\n")

    with pytest.raises(StoppedError, match=r"a\.txt: changed while it was read"):
        answer(path, tmp_path / "out", during=append)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("change", ["cut", "removed"])
def test_a_file_that_is_damaged_since_it_changed_has_changed(change: str, tmp_path: Path) -> None:
    """To restore it is no advice where it is being written anew."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("".join(f"{n * 7919 % 99991}\n" for n in range(99_000)).encode()))

    def disturb() -> None:
        if change == "cut":
            os.truncate(path, 150_000)
        else:
            path.unlink(missing_ok=True)

    with pytest.raises(StoppedError, match=r"a\.txt\.gz: changed while it was read"):
        answer(path, tmp_path / "out", during=disturb)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.parquet"])
def test_a_disk_that_fills_in_the_middle(name: str, tmp_path: Path) -> None:
    import resource

    texts = [f"{n * 7919 % 99991} text" for n in range(60_000)]
    path = tmp_path / name
    content = "".join(f"{text}\n" for text in texts).encode()
    if name.endswith("gz"):
        content = gzip.compress(content)
    elif not name.endswith("txt"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        content = pa.compress(content, "zstd", asbytes=True)
        parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    if not name.endswith("parquet"):
        path.write_bytes(content)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(DiskError, match="writing failed: File too large"):
            answer(path, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "out").iterdir()) == []


def test_names_without_a_known_format() -> None:
    assert format_of(Path("a.b.jsonl.zst")) == format_of(Path("x.NDJSON.zst"))
    assert format_of(Path("corpus.en")) is None
    assert format_of(Path("corpus.en.gz"), "text") == format_of(Path("corpus.txt.gz"))
    with pytest.raises(UsageError, match="Parquet packs its columns itself"):
        format_of(Path("a.parquet.gz"))


def test_a_sample_says_how_many_rows_there_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds))
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept))
    path = tmp_path / "a.txt"
    path.write_text("SLOW line\n" * 300_000)
    asked = job()
    shard = Shard(path, tmp_path / "out", Format("text"), path.stat().st_size)
    sample = sample_shard(shard, asked, ShoutingModel(asked))
    assert sample["rows"] == pytest.approx(300_000, rel=0.15)
    # two milliseconds a row
    assert sample["seconds"] == pytest.approx(600, rel=0.15)


def test_a_folder_or_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    asked = job()
    errors: list[DikkatError] = []
    for source in (tmp_path / "none.txt", tmp_path):
        shard = Shard(source, tmp_path / "out" / "a.txt", Format("text"), 1)
        with pytest.raises(MissingInputError) as caught:
            write_shard(shard, asked, ShoutingModel(asked), FINGERPRINT, lambda rows, fraction: None)
        errors.append(caught.value)
    assert [str(error).rpartition(": ")[2] for error in errors] == [
        "there is no such file",
        "must be a file; leave it out",
    ]


@pytest.mark.parametrize(
    ("first", "options", "column"),
    [
        ({"id": 1, "text": None}, {}, "text"),
        ({"url": "x", "source": None, "target": None}, {}, "source"),
        ({"url": "x", "en": None}, {"column": "en"}, "en"),
        ({"id": 1, "en": None}, {}, "en"),
        ({"note": None, "en": "zero"}, {}, "en"),
    ],
)
def test_a_first_text_that_is_null_needs_no_column(
    tmp_path: Path, first: dict[str, Any], options: dict[str, Any], column: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in (first, {**first, column: "one"})), encoding="utf-8")
    shard = answer(path, tmp_path / "out", **options)
    written = [json.loads(line)["translation"] for line in shard.output.read_text(encoding="utf-8").splitlines()]
    assert written == [(first[column] or "").upper() or None, "ONE"]
    assert json.loads(shard.record.read_text())["failed"] == 0


def test_of_several_columns_without_a_text_one_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"en": null, "tr": null}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"which column is the text\? Name one with --column; its columns are: en, tr"):
        answer(path, tmp_path / "out")
