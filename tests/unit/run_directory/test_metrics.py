"""One line of JSON for each validation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dikkat.run_directory.directory import append_metrics, truncate_metrics
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.metrics import read_metrics


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": 100, "chrf": 12.5, "sample": "Işık\u2028söndü"}, {"step": 200, "chrf": 30.25, "sample": ""}]
    for row in rows:
        append_metrics(path, row)
    assert read_metrics(path) == rows
    assert path.read_bytes().count(b"\n") == 2


def test_a_row_has_a_column_for_each_of_thirty_thousand_labels(tmp_path: Path) -> None:
    row = {"step": 1, **{f"cut_{label}": 0.123456789012345678 for label in range(30_000)}}
    append_metrics(tmp_path / "metrics.jsonl", row)
    assert read_metrics(tmp_path / "metrics.jsonl") == [row]


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_not_finite_numbers_are_written_as_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"step": 1, "train_loss": math.nan, "valid_loss": math.inf})
    row = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert (row["step"], row["train_loss"], row["valid_loss"]) == (1, None, None)


def test_unfinished_last_line_is_not_a_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"step": 1})
    with path.open("a") as file:
        file.write('{"step": 2')
    assert read_metrics(path) == [{"step": 1}]
    append_metrics(path, {"step": 2})
    assert read_metrics(path) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize(("after_step", "left"), [(0, []), (150, [100]), (200, [100, 200]), (999, [100, 200, 300])])
def test_truncate_drops_the_rows_after_a_step(tmp_path: Path, after_step: int, left: list[int]) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (100, 200, 300):
        append_metrics(path, {"step": step})
    truncate_metrics(path, after_step)
    assert [row["step"] for row in read_metrics(path)] == left


@pytest.mark.parametrize(("line", "reason"), [("{broken", "not valid JSON"), ("[1]", "not a row"), ("", "JSON")])
def test_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"step": 1})
    with path.open("a") as file:
        file.write(f'{line}\n{{"step": 3}}\n')
    with pytest.raises(DataError, match=rf"metrics\.jsonl:2: damaged: .*{reason}"):
        read_metrics(path)


def test_invalid_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": "\xff"}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl:1: damaged"):
        read_metrics(path)
