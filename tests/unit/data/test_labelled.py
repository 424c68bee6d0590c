"""Labelled texts: where label and text stand, and what is refused."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

import pytest

from dikkat.config import DataConfig, TokenizerConfig
from dikkat.data.labelled import LabelledText, read_labelled
from dikkat.data.near_duplicates import near_key
from dikkat.data.splitting import split_texts
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.classifier import kept_ids
from dikkat_runtime.text.tokenizer import Tokenizer

WANTED = [LabelledText(("pos",), "a fine film", 1), LabelledText(("neg",), "dull, and long", 2)]


def write(path: Path, text: str) -> list[str]:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return [str(path)]


@pytest.mark.parametrize("name", ["data.tsv", "data.tsv.gz"])
def test_label_first(tmp_path: Path, name: str) -> None:
    data = write(tmp_path / name, "pos\ta fine film\nneg\tdull, and long\n")
    assert list(read_labelled(data)) == WANTED


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    rows = '7,a fine film,pos\n8,"dull, and long",neg\n'
    numbered = write(tmp_path / "data.csv", rows)
    assert list(read_labelled(numbered, ("3", "2"))) == WANTED
    named = write(tmp_path / "named.csv", "id,review,class\n" + rows)
    result = list(read_labelled(named, ("class", "review")))
    assert [item[:2] for item in result] == [item[:2] for item in WANTED]


def test_json_lines_with_labels_as_numbers(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", '{"label": 1, "text": "a fine film"}\n{"label": 0, "text": "dull"}\n')
    assert [item[:2] for item in read_labelled(data)] == [(("1",), "a fine film"), (("0",), "dull")]
    named = write(tmp_path / "named.jsonl", '{"stars": "5", "text": "a fine film"}\n')
    assert next(read_labelled(named, ("stars", None))).label == "5"


def test_two_aligned_files_labels_first(tmp_path: Path) -> None:
    data = write(tmp_path / "labels.txt", "pos\nneg\n") + write(tmp_path / "texts.txt", "a fine film\ndull, and long\n")
    assert list(read_labelled(data)) == WANTED


def test_a_list_of_labels_in_json_lines(tmp_path: Path) -> None:
    lines = ['["b", " a ", "b"]', "[]", '"c"', "[3]"]
    rows = "".join(f'{{"label": {label}, "text": "fine"}}\n' for label in lines)
    result = read_labelled(write(tmp_path / "data.jsonl", rows))
    assert [item.labels for item in result] == [("b", "a"), (), ("c",), ("3",)]
    broken = write(tmp_path / "broken.jsonl", '{"label": ["a", ["b"]], "text": "fine"}\n')
    with pytest.raises(DataError, match=r'broken.jsonl:1: "label" must be a text, not list'):
        list(read_labelled(broken))


def test_a_separator_between_labels(tmp_path: Path) -> None:
    data = write(tmp_path / "data.tsv", "a; b c\tfine\n\tdull\nb\tso so\n;\tnone\n")
    result = list(read_labelled(data, separator=";"))
    assert [item.labels for item in result] == [("a", "b c"), (), ("b",), ()]
    with pytest.raises(DataError, match=r"data.tsv:2: the label is empty"):
        list(read_labelled(data))


@pytest.mark.parametrize(("row", "what"), [("neg\t  ", "text"), ("\tdull", "label")])
def test_an_empty_side_is_an_error_with_its_line(tmp_path: Path, row: str, what: str) -> None:
    data = write(tmp_path / "data.tsv", f"pos\tfine\n{row}\n")
    with pytest.raises(DataError, match=rf"data.tsv:2: the {what} is empty; fill it in, or remove the line"):
        list(read_labelled(data))


def test_one_column_for_both(tmp_path: Path) -> None:
    data = write(tmp_path / "data.tsv", "a fine film\tpos\n")
    with pytest.raises(UsageError, match="label and text are both column 2"):
        list(read_labelled(data, ("2", None)))


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    tokenizer = Tokenizer.train(["a b"], TokenizerConfig(kind="characters"), ("", ""))
    kept = functools.partial(kept_ids, tokenizer)
    assert kept(range(10), 10, 0.25) == list(range(10))
    assert kept(range(100), 8, 0.25) == [0, 1, 94, 95, 96, 97, 98, 99]
    assert kept(range(100), 3, 1.0) == [0, 1, 2]
    assert kept(range(100), 3, 0.0) == [97, 98, 99]


@pytest.mark.seed("F13")
def test_near_duplicates_of_a_text_stay_on_one_side() -> None:
    texts = [
        f"review {'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{mark}" for n in range(100) for mark in ("", "!")
    ]
    split = split_texts(texts, DataConfig(validation_pairs=20, test_pairs=10), seed=3)
    assert not set(split.validation) & set(split.test)
    parts = [set(range(200)) - {*split.validation, *split.test}, *split]
    assert split.validation
    assert split.test
    keys = [{near_key(texts[index]) for index in part} for part in parts]
    assert not keys[0] & keys[1]
    assert not keys[0] & keys[2]
    assert not keys[1] & keys[2]
