"""Pairs from aligned files, tables and catalogs, and one clear line for each way these can be wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dikkat.data import readers
from dikkat.data.readers import Column, Pair, read_pairs
from dikkat_runtime.errors import DataError, DikkatError, MissingInputError, UsageError

_TATOEBA = Path(__file__).parents[4] / "shared" / "data" / "tatoeba" / "eng-fra.tsv.gz"


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    content = text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


def _complaint(kind: type[DikkatError], data: list[str], source: Column = None, target: Column = None) -> str:
    with pytest.raises(kind) as caught:
        list(read_pairs(data, source, target))
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_aligned_files(tmp_path: Path, suffix: str) -> None:
    data = [_write(tmp_path, f"a.en{suffix}", "A dog.\n\nTwo.\n"), _write(tmp_path, "a.de", "Ein Hund.\n\nZwei.\n")]
    assert list(read_pairs(data)) == [Pair("A dog.", "Ein Hund.", 1), Pair("", "", 2), Pair("Two.", "Zwei.", 3)]


def test_unequal_files_name_both_counts_and_the_line_of_the_shift(tmp_path: Path) -> None:
    sources = [f"line {'x' * (number * 7 % 40)} {number}" for number in range(2000)]
    targets = [line.replace("line", "Zeile") for line in sources]
    one, two = (
        _write(tmp_path, "a.en", "\n".join(sources)),
        _write(tmp_path, "a.de", "\n".join(targets[:700] + targets[701:])),
    )
    assert _complaint(DataError, [one, two]) == (
        f"{one} has 2,000 lines, but {two} has 1,999; the pairing seems to shift near line 701; "
        "line N of one file must translate line N of the other"
    )
    assert f"{two} has 1,999 lines, but {one} has 2,000; the pairing seems to shift near line 701" in _complaint(
        DataError, [two, one]
    )


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    lines = [f"{'x' * (number * 7 % 40)} {number}\n" for number in range(500)]
    one, two = _write(tmp_path, "a.en", "".join(lines[:450])), _write(tmp_path, "a.de", "".join(lines))
    assert f"{one} has 450 lines, but {two} has 500; {one} seems to be cut off;" in _complaint(DataError, [one, two])


def test_a_missing_second_file_is_reported(tmp_path: Path) -> None:
    one = _write(tmp_path, "a.en", "x\n")
    assert "a.de: there is no such file" in _complaint(MissingInputError, [one, str(tmp_path / "a.de")])


def test_tsv_takes_the_first_two_columns_and_leaves_quotes_alone(tmp_path: Path) -> None:
    data = [_write(tmp_path, "eng-fra.tsv.gz", 'Go.\tVa !\tCC-BY 2.0\n\n"Hi," he said.\t"Salut"\n')]
    assert list(read_pairs(data)) == [Pair("Go.", "Va !", 1), Pair('"Hi," he said.', '"Salut"', 3)]


@pytest.mark.parametrize(("source", "target"), [(3, 1), ("3", "1"), ("fr", "id"), ("fr", 1)])
def test_columns_by_number_and_by_name(tmp_path: Path, source: Column, target: Column) -> None:
    data = [_write(tmp_path, "a.tsv", "id\ten\tfr\n1\tGo.\tVa !\n")]
    rows = list(read_pairs(data, source, target))
    assert rows == [Pair("Va !", "1", 2)], "the header is no pair, however the columns are chosen"


def test_a_tsv_row_with_one_column_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.tsv", "Go.\tVa !\nRun! Cours !\n")
    assert _complaint(DataError, [path]) == f"{path}:2: 1 column, but column 2 is asked for"
    assert _complaint(DataError, [path], 1, 4) == f"{path}:1: 2 columns, but column 4 is asked for"


def test_an_unknown_column_offers_the_nearest(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.csv", "english,french\nGo.,Va !\n")
    assert _complaint(UsageError, [path], "english", "frensh") == (
        f'{path}:1: no column is called "frensh"; did you mean "french"?; known: english, french'
    )


def test_columns_are_counted_from_one(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.csv", "a,b\n")
    assert _complaint(UsageError, [path], 0, 1) == "columns are counted from 1, so there is no column 0"


def test_csv_agrees_with_its_writer_and_breaks_become_spaces(tmp_path: Path) -> None:
    rows = [["He said “no”, twice.", 'Er sagte "nein", zweimal.'], ["two\nlines", "zwei\r\nZeilen"], ["last", "letzte"]]
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    pairs = list(read_pairs([_write(tmp_path, "a.csv.gz", table.getvalue())]))
    assert pairs == [Pair(rows[0][0], rows[0][1], 1), Pair("two lines", "zwei Zeilen", 2), Pair("last", "letzte", 5)]


def test_a_quotation_mark_left_open_names_the_line_of_its_row(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.csv", 'a,b\n"c,d\ne,f\n')
    assert _complaint(DataError, [path]).startswith(f"{path}:2: not valid CSV (")
    path = _write(tmp_path, "b.csv", 'a,b\n"c' + ",ddddddddd\n" * 110_000)
    assert _complaint(DataError, [path]).startswith(f"{path}:2: not valid CSV (field larger than")


@pytest.mark.parametrize(
    ("entry", "source", "target"),
    [
        ({"source": "Go.", "target": "Va !"}, None, None),
        ({"src": "Go.", "tgt": "Va !", "id": 3}, None, None),
        ({"translation": {"en": "Go.", "fr": "Va !"}}, "en", "fr"),
        ({"english": "Go.", "french": "Va !"}, "english", "french"),
    ],
)
def test_json_lines(tmp_path: Path, entry: dict[str, object], source: Column, target: Column) -> None:
    text = "\n" + json.dumps(entry) + "\n" + json.dumps(entry, ensure_ascii=False)
    data = [_write(tmp_path, "a.jsonl.gz", text)]
    assert list(read_pairs(data, source, target)) == [Pair("Go.", "Va !", 2), Pair("Go.", "Va !", 3)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"source": "a", "target": }', ":2:27: not valid JSON: Expecting value"),
        ('["a", "b"]', ":2: every line must be a JSON object such as"),
        ('{"source": "a"}', ':2: no key is called "target"; known: source'),
        ('{"source": "a", "target": null}', ':2: "target" must be a text, not NoneType'),
        ('{"source": "a", "target": "\\ud83d"}', ':2: "target" holds half of a surrogate pair'),
        ('{"source": ' + "9" * 5000 + "}", ":2: JSON that cannot be read: "),
        ('{"source": ' + "[" * 100_000, ":2: JSON that cannot be read: "),
    ],
)
def test_bad_json_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = _write(tmp_path, "a.jsonl", '{"source": "a", "target": "b"}\n' + line + "\n")
    assert _complaint(DataError, [path]).startswith(path + complaint)


def test_json_of_other_keys_asks_for_columns(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.jsonl", '{"en": "a", "fr": "b"}\n')
    assert _complaint(DataError, [path]).endswith(
        "name both with --source-column en --target-column fr; its keys are: en, fr"
    )
    assert _complaint(UsageError, [path], 1, 2) == "columns of JSONL are named, not numbered"
    assert _complaint(UsageError, [path], "en") == (
        "for JSONL, name the column of the source and that of the target, or neither"
    )


def test_catalogs_are_read_by_language(monkeypatch: pytest.MonkeyPatch) -> None:
    def catalogs(language: str) -> Iterator[Pair]:
        yield Pair("File", f"Fichier ({language})", 1)

    monkeypatch.setattr(readers, "read_catalogs", catalogs)
    assert list(read_pairs(["gettext:fr"])) == [Pair("File", "Fichier (fr)", 1)]
    assert _complaint(UsageError, ["gettext:"]) == "gettext: needs a language, as in gettext:fr"
    assert "not in catalogs" in _complaint(UsageError, ["gettext:fr"], 1, 2)


@pytest.mark.parametrize("data", [["a.xyz"], ["train.en"], [], ["a", "b", "c"], ["a.tsv", "b.en"]])
def test_data_of_an_unknown_form_is_refused_at_once(data: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_pairs(data)
    assert str(caught.value).endswith(
        "known: .tsv, .csv, .jsonl, .po, .mo, .xlf, .tmx (each also compressed), .parquet, two aligned files or"
        " documents, or gettext:LANGUAGE"
    )


def test_files_of_all_kinds_are_read_one_after_the_other(tmp_path: Path) -> None:
    xliff = (
        '<xliff version="1.2"><file source-language="en" target-language="tr"><body>'
        '<trans-unit id="1"><source>Open <x id="1" equiv-text="{n}"/> <g id="2">file</g></source>'
        '<target state="final">{n} dosya aç</target></trans-unit>'
        '<trans-unit id="2"><source>No</source><target state="needs-translation">Hayır</target></trans-unit>'
        '<trans-unit id="3"><source>Yes</source></trans-unit></body></file></xliff>'
    )
    second = (
        '<xliff version="2.0" srcLang="en" trgLang="tr"><file id="f"><unit id="u"><segment state="reviewed">'
        "<source>Close</source><target>Kapat</target></segment><segment><source>X y</source></segment></unit>"
        "</file></xliff>"
    )
    data = [
        _write(tmp_path, "a.xlf", xliff), _write(tmp_path, "b.xlf.gz", second),
        _write(tmp_path, "c.tsv", "Go.\tGit.\n"), _write(tmp_path, "d.en", "One.\n"),
        _write(tmp_path, "d.tr", "Bir.\n"),
        _write(tmp_path, "e.en.md", "# A *page*\n\nText.\n"), _write(tmp_path, "e.tr.md", "# Bir *sayfa*\n\nMetin.\n"),
    ]  # fmt: skip
    notes: list[str] = []
    pairs = list(read_pairs(data, note=notes.append))
    assert [pair[:2] for pair in pairs] == [
        ("Open {n} file", "{n} dosya aç"), ("Close", "Kapat"), ("Go.", "Git."), ("One.", "Bir."),
        ("A page", "Bir sayfa"), ("Text.", "Metin."),
    ]  # fmt: skip
    assert f"line {pairs[3].line}" == f"line 1 of {data[3]} {data[4]}"
    assert notes == [
        f"{data[0]}: 1 pair of en and tr; skipped: 1 in the state needs-translation, 1 not translated",
        f"{data[1]}: 1 pair of en and tr; skipped: 1 not translated",
    ]


def test_documents_of_other_builds_are_refused(tmp_path: Path) -> None:
    data = [_write(tmp_path, "e.en.md", "# A page\n\nText.\n"), _write(tmp_path, "e.tr.md", "# Bir sayfa\n")]
    assert f"{data[0]} has 2 segments, but {data[1]} has 1;" in _complaint(DataError, data)


def test_columns_of_aligned_files_are_refused() -> None:
    assert "not in aligned files" in _complaint(UsageError, ["a.en", "a.de"], 1, 2)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_tables_are_read_in_constant_memory(tmp_path: Path, name: str) -> None:
    row = {
        "a.tsv": "A dog runs over the green grass.\tEin Hund läuft über das grüne Gras.\n",
        "a.csv": '"A dog runs, over the green grass.","Ein Hund läuft, über das grüne Gras."\n',
        "a.jsonl": '{"source": "A dog runs over green grass.", "target": "Ein Hund läuft über das grüne Gras."}\n',
    }[name]
    path = _write(tmp_path, name, row * 30_000)
    tracemalloc.start()
    count = sum(1 for _ in read_pairs([path]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 30_000
    assert peak < 500_000


@pytest.mark.skipif(not _TATOEBA.is_file(), reason=f"needs {_TATOEBA}")
def test_tatoeba_is_read_as_it_is() -> None:
    pairs = list(read_pairs([str(_TATOEBA)]))
    assert len(pairs) == 76_036
    assert pairs[0] == Pair("Go.", "Va !", 1)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.xlsx", b"x", "is a spreadsheet; export it as .tsv, .csv or .jsonl (CSV UTF-8)"),
        ("a.ODS", b"x", "is a spreadsheet; export it as .tsv, .csv or .jsonl (CSV UTF-8)"),
        ("a.tsv", b"PAR1\x15\x04", "is a Parquet table, not text; give it a name that ends in .parquet"),
        ("a.pdf", b"%PDF-1.7\n", "is a PDF document, not text; save its text as UTF-8 (.txt)"),
        ("a.docx", b"x", "is a document; name its translation right after it, or save its text"),
        ("a.json", b"[]", "is a JSON document; write it as .jsonl, an object a line"),
        (
            "a.tsv",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n",
            "is a pointer of Git LFS, not text; fetch the file itself with git lfs pull",
        ),
    ],
)
def test_files_of_other_programs_are_named_with_what_to_do(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert _complaint(DataError, [str(tmp_path / name)]) == f"{tmp_path / name}: {complaint}"


def test_a_workbook_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for entry in ("[Content_Types].xml", "xl/workbook.xml"):
            archive.writestr(entry, "<x/>")
    assert "is an Excel workbook (.xlsx)" in _complaint(DataError, [str(tmp_path / "a.xlsx")])


def test_a_file_that_is_not_there_is_said_to_be_missing_whatever_its_name(tmp_path: Path) -> None:
    assert "there is no such file" in _complaint(MissingInputError, [str(tmp_path / "a.xlsx")])


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "tsv.gz"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    rows = ["A dog.\tBir köpek."] * 5000 if "tsv" in suffix else ['{"source": "A dog.", "target": "Bir köpek."}'] * 5000
    content = "".join(f"{row}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert len(list(read_pairs([str(path)]))) == 5000
    pairs = read_pairs([str(path)])
    next(pairs)
    with path.open("ab") as file:
        file.write(b"" if suffix.endswith("gz") else f"{rows[0]}\n".encode())
    os.utime(path, ns=(0, 0))
    with pytest.raises(DataError, match=r"a\.\S+: changed while it was read; let it be written to its end"):
        list(pairs)


def test_the_last_of_many_files_is_missed_before_the_first_is_read(tmp_path: Path) -> None:
    first = _write(tmp_path, "1.tsv", "A dog.\tBir köpek.\n")
    with pytest.raises(MissingInputError, match=r"3\.tsv: there is no such file"):
        read_pairs([first, first, str(tmp_path / "3.tsv")])
