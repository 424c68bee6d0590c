"""`dikkat data` as a user meets it: a table that train reads, or one line and nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.system.toy import Command, one_line, toy_sentences

from dikkat import Translator
from dikkat.data.readers import read_pairs


@pytest.fixture
def backward(trained: Path, tmp_path: Path) -> Path:
    """The translator of the toy language, which says of itself that it goes the other way."""
    run = tmp_path / "backward"
    shutil.copytree(trained, run)
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    languages = config["data"]["source_language"], config["data"]["target_language"]
    config["data"] |= {"target_language": languages[0], "source_language": languages[1]}
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in ("manifest.json", "metrics.jsonl"):
        (run / name).unlink()
    return run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(20)), encoding="utf-8")
    return path


def test_the_table_holds_what_was_given_and_what_is_new(
    dikkat: Command, trained: Path, backward: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "more.tsv"
    code, output, complaint = dikkat("data", "diversify", trained, backward, table, "--out", out)
    assert code == 0, complaint
    inputs, result = ([(pair.source, pair.target) for pair in read_pairs([str(path)])] for path in (table, out))
    assert result[: len(inputs)] == inputs
    new = result[len(inputs) :]
    assert len(set(new)) == len(new) > 0
    assert not set(new) & set(inputs)
    sources, targets = ([pair[side] for pair in inputs] for side in (0, 1))
    written, thought = (
        [item.text for item in Translator.load(trained).translate(texts)] for texts in (sources, targets)
    )
    assert set(new) <= {*zip(sources, written, strict=True), *zip(thought, targets, strict=True)}
    assert output.startswith("20 pairs, ")
    assert output.endswith(f" {len(result)} in {out}\n")


def test_what_cannot_be_done_is_said_before_any_work(
    dikkat: Command, trained: Path, backward: Path, table: Path, tmp_path: Path
) -> None:
    def refused(exit_code: int, *arguments: str | Path) -> str:
        before = sorted(tmp_path.iterdir())
        code, output, complaint = dikkat("data", "diversify", *arguments)
        assert output == ""
        assert sorted(tmp_path.iterdir()) == before
        return one_line(code, complaint, exit_code)

    out = tmp_path / "more.tsv"
    refused(2, trained, backward, table, "--out", tmp_path / "more.csv")
    assert f"{table}: exists already; name another file, or remove it" in refused(
        73, trained, backward, table, "--out", table
    )
    refused(73, trained, backward, table, "--out", tmp_path / "nowhere" / "more.tsv")
    assert "must go the other way" in refused(2, trained, trained, table, "--out", out)
    refused(66, trained, backward, tmp_path / "absent.tsv", "--out", out)
    table.write_text("one column\n", encoding="utf-8")
    assert f"{table}:1: 1 column" in refused(65, trained, backward, table, "--out", out)


def test_parallel_text_is_checked_and_written_without_its_faults(dikkat: Command, tmp_path: Path) -> None:
    rows = [f"{source}\t{target}\n" for source, target in toy_sentences(30)]
    table, fixed, page = tmp_path / "pairs.tsv", tmp_path / "fixed.tsv", tmp_path / "check.html"
    table.write_text("".join([*rows, "a {name}\tb\n", "only\t\n"]), encoding="utf-8")
    faults = json.loads(dikkat("data", "check", table, "--json")[1])
    code, output, complaint = dikkat("data", "check", table, "--out", page, "--fix", fixed)
    assert f"{faults['pairs']:,} pairs" in output
    assert f"{sum(faults['faults'].values()):,} with a fault" in output
    assert code == 0, complaint
    assert "placeholders differ" in output
    assert "empty side" in output
    left = (tmp_path / "fixed.left-out.tsv").read_text("utf-8").splitlines()
    assert "placeholders differ\t31\ta {name}\tb" in left
    assert len(fixed.read_text("utf-8").splitlines()) + len(left) - 1 == 32
    assert "<h1>Data check</h1>" in page.read_text("utf-8")
    assert "exists already" in one_line(*dikkat("data", "check", table, "--fix", fixed)[::2], 73)
