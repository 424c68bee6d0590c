"""`translate-files` by both command lines: outputs beside those of the models themselves, and one line a mistake."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.command_lines import run_without_dikkat as runtime
from tests.runtime.runs import SENTENCES, classifier_run, language_model_run, translator_run

from dikkat_runtime.cli.main import run as dikkat
from dikkat_runtime.cli.streams import VisibleText
from dikkat_runtime.localization import clock_time
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.rows.contract import Format
from dikkat_runtime.shards import driver
from dikkat_runtime.shards import driver as progress
from dikkat_runtime.shards.driver import Progress, estimate_line
from dikkat_runtime.shards.work import Shard, Work
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.translator import Translator

Run = Callable[..., int]
COMMANDS = [pytest.param(runtime, id="dikkat-runtime"), pytest.param(dikkat, id="dikkat")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "MT": translator_run(folder / "mt"),
        "CL": classifier_run(folder / "cl"),
        "ML": classifier_run(folder / "ml", {"objective": "multi_label"}),
        "LM": language_model_run(folder / "lm"),
    }


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "lines.txt"
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    return path


def files(run: Run, *words: str | Path) -> int:
    return run(["translate-files", *map(str, words)])


@pytest.mark.parametrize("run", COMMANDS)
@pytest.mark.parametrize(
    ("kind", "command"), [("MT", "translate"), ("CL", "classify"), ("ML", "classify"), ("LM", "embed")]
)
def test_lines_are_answered_as_the_command_for_lines_does(
    run: Run, kind: str, command: str, models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lines.parent.parent / "out"
    assert files(run, models[kind], lines.parent, "--out", out, "--precision", "float32") == 0
    messages = capfd.readouterr()
    assert messages.out == ""
    assert "wrote 1 file, 6 rows: 1 empty" in messages.err
    assert run([command, str(models[kind]), str(lines), "--precision", "float32"]) == 0
    assert out.joinpath("lines.txt").read_text(encoding="utf-8") == capfd.readouterr().out


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
# in this order, since every third runs by day: one class a text is tried by the lines above
@pytest.mark.parametrize("kind", ["MT", "ML", "CL", "MT --embed"])
def test_columns_hold_what_the_models_answer(suffix: str, kind: str, models: dict[str, Path], tmp_path: Path) -> None:
    rows = [{"id": n, "text": text} for n, text in enumerate(SENTENCES)]
    path, run = tmp_path / f"a.{suffix}", models[kind.split()[0]]
    if suffix == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert files(runtime, run, path, "--out", tmp_path / "out", "--precision", "float32", *kind.split()[1:]) == 0
    output = tmp_path / "out" / path.name
    if suffix == "parquet":
        written = parquet.read_table(output).to_pylist()
    else:
        written = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [{"id": row["id"], "text": row["text"]} for row in written] == rows
    if kind == "MT":
        expected = Translator.load(run, precision="float32").translate(SENTENCES)
        assert [row["translation"] for row in written] == [translation.text for translation in expected]
    elif "--embed" in kind:
        vectors = np.stack(list(Embedder.load(run, precision="float32").stream(SENTENCES)))
        np.testing.assert_array_equal(np.array([row["embedding"] for row in written], np.float32), vectors)
    else:
        for row, answer in zip(written, Classifier.load(run, precision="float32").classify(SENTENCES), strict=True):
            labels = list(answer.labels) if kind == "ML" else answer.label
            assert row["label"] == (labels if answer.label else None)
            shares = [answer.probabilities[label] for label in answer.labels] if kind == "ML" else answer.probability
            if answer.label:
                np.testing.assert_allclose(row["probability"], shares, rtol=1e-6)


def test_a_second_call_does_what_is_missing(
    models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, other = lines.parent.parent / "out", lines.with_name("other.txt")
    other.write_text("Yes.\n")
    words = (models["MT"], lines.parent, "--out", out, "--beam", "1")
    assert files(runtime, *words) == 0
    written = (out / "other.txt").stat()
    (out / "lines.txt").unlink()
    capfd.readouterr()
    assert files(runtime, *words) == 0
    assert "1 file already complete, skipped" in capfd.readouterr().err
    assert (out / "other.txt").stat() == written
    # as after a copy of the inputs: another time, the same bytes
    os.utime(other, (1, 1))
    assert files(runtime, *words) == 0
    assert (out / "other.txt").stat() == written


@pytest.mark.parametrize("run", COMMANDS)
def test_what_was_made_otherwise_is_refused(
    run: Run, models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lines.parent.parent / "out"
    words = (models["MT"], lines, "--out", out, "--beam", "1")
    assert files(run, *words) == 0

    def refused(code: int, message: str, *words: str | Path) -> None:
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        capfd.readouterr()
        assert files(run, *words) == code
        assert capfd.readouterr().err.endswith(f"{message}\n")
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before

    advice = "give another --out, or --force to overwrite its files"
    refused(2, f"{out}: was made by beam 1, not 2; {advice}", *words[:-1], "2")
    refused(2, f"{out}: was made by all_words false, not true; {advice}", *words, "--all-words")
    refused(
        2, f'{out}: was made by task translate, not "classify"; {advice}'.replace('"', ""), models["CL"], *words[1:]
    )
    (models["MT"] / "corrections.json").write_text("{}")
    refused(2, f"{out}: was made by another model, or an older dikkat; {advice}", *words)
    (models["MT"] / "corrections.json").unlink()
    lines.write_text("Yes.\n")
    refused(65, f"{lines}: has changed since {out / 'lines.txt'} was made from it; --force makes it again", *words)
    assert files(run, *words, "--force") == 0
    assert (out / "lines.txt").read_bytes().count(b"\n") == 1
    (out / "lines.txt").write_text("edited by a person\n")
    refused(65, f"{out / 'lines.txt'}: has changed since it was written; --force makes it again", *words)
    (out / "_lines.txt.json").unlink()
    message = f"{out / 'lines.txt'}: exists already, and was not written by this command; move it, or give --force"
    refused(65, message, *words)
    assert files(run, *words, "--force") == 0


@pytest.mark.parametrize("run", COMMANDS)
def test_mistakes(run: Run, models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, model = lines.parent, models["MT"]
    (folder / "corpus.en").write_text("Yes.\n")
    (notes := folder / "notes.md").write_text("# Yes.\n")
    twin = folder / "twin" / "lines.txt"
    twin.parent.mkdir()
    twin.write_text("Yes.\n")
    (folder / "table.tsv").write_text("id\tbody\n1\tYes.\n")
    out = folder.parent / "out"
    more = usable_processors() + 1
    cases: list[tuple[int, str, tuple[str | Path, ...]]] = [
        (66, f"{folder / 'none'}: there is no such file or folder", (folder / "none",)),
        (2, f"{folder / 'corpus.en'}: its name does not tell its format", (folder / "corpus.en",)),
        (2, f"translate it whole: dikkat translate {model} {notes} --out {folder / 'notes.out.md'}", (lines, notes)),
        (2, f"{lines} and {twin} would both be written to {out / 'lines.txt'}", (lines, twin)),
        (2, "--shard 3/2: give the number of the task, from 1", (lines, "--shard", "3/2")),
        (2, f"need {more} processors, and this process may use {more - 1}", (lines, "--workers", str(more))),
        (2, "--column: text has no columns", (lines, "--column", "body")),
        (
            65,
            f"{folder / 'table.tsv'}: has no column text; its columns are: id, body",
            (folder / "table.tsv", "--column", "text"),
        ),
    ]
    for code, message, words in cases:
        assert files(run, model, *words, "--out", out) == code, message
        assert message in capfd.readouterr().err.split("\n")[-2]
        # what is seen in the options leaves no folder behind
        assert not out.exists() or (code == 65 and not list(out.glob("[a-z]*")))
    assert files(run, model, lines, "--out", folder) == 2
    assert "would be replaced by its own output" in capfd.readouterr().err
    assert files(run, folder, lines, "--out", out) == 66
    assert files(run, model, folder / "corpus.en", "--out", out, "--format", "text", "--beam", "1") == 0


def test_bad_files_are_reported_and_the_others_written(
    models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lines.parent.parent / "out"
    (lines.parent / "bad.txt.gz").write_bytes(b"no gzip")
    (lines.parent / "notes.md").write_text("# notes")
    assert files(runtime, models["MT"], lines.parent, "--out", out, "--beam", "1") == 65
    messages = capfd.readouterr().err
    assert f"skipped 1 file of other formats, such as {lines.parent / 'notes.md'}" in messages
    assert messages.split("\n")[-2].startswith(f"dikkat: {lines.parent / 'bad.txt.gz'}: damaged")
    assert sorted(path.name for path in out.glob("[!._]*")) == ["lines.txt"]


def test_an_estimate_writes_nothing(models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = lines.parent.parent / "out"
    assert files(runtime, models["MT"], lines, "--out", out, "--estimate") == 0
    assert "about 6 rows in 1 file: 0:0" in capfd.readouterr().err
    assert not out.exists()


def test_outputs_in_the_folder_of_the_inputs_are_no_inputs(models: dict[str, Path], lines: Path) -> None:
    out = lines.parent / "out"
    for _ in range(2):
        assert files(runtime, models["MT"], lines.parent, "--out", out, "--beam", "1") == 0
        assert sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) == [
            "_job.json", "_lines.txt.json", "lines.txt"
        ]  # fmt: skip


@pytest.mark.parametrize("words", [(), ("--estimate",)])
def test_a_task_of_an_array_without_a_file_has_nothing_to_do(
    models: dict[str, Path], lines: Path, words: tuple[str, ...]
) -> None:
    assert files(runtime, models["MT"], lines, "--out", lines.parent.parent / "out", "--shard", "2/3", *words) == 0


def test_a_task_without_a_file_needs_no_column(models: dict[str, Path], lines: Path, tmp_path: Path) -> None:
    """Nor does one whose files are text, where those of other tasks have it."""
    (lines.parent / "table.tsv").write_text("id\tbody\n1\tYes.\n")
    words = (models["MT"], lines.parent, "--out", tmp_path / "out", "--column", "body", "--beam", "1")
    for number in (1, 2, 3):
        assert files(runtime, *words, "--shard", f"{number}/3") == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("[a-z]*")) == ["lines.txt", "table.tsv"]


def test_messages_are_turkish_and_show_no_control_characters(
    models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", VisibleText(sys.stderr))  # type: ignore[arg-type]
    steering, words = lines.rename(lines.with_name("a\x1b[31m.txt")), ("--language", "tr", "--beam", "1")
    out = lines.parent.parent / "out"
    assert files(runtime, models["MT"], steering, "--out", out, *words) == 0
    assert files(runtime, models["MT"], steering.with_name("b\x1b[31m.txt"), "--out", out, *words) == 66
    said = capfd.readouterr().err
    assert "\x1b" not in said
    assert "(a\\x1b[31m.txt dosyasının ilk satırlarına göre)\n" in said
    assert "\n1 dosya, 6 satır yazıldı: 1 boş, 5 satır döngüye girdi" in said
    assert said.endswith("b\\x1b[31m.txt: böyle bir dosya ya da klasör yok\n")


def test_ray_is_asked_for_where_it_is_not(
    models: dict[str, Path], lines: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    out = lines.parent.parent / "out"
    assert files(runtime, models["MT"], lines, "--out", out, "--ray") == 2
    assert capfd.readouterr().err == "dikkat: --ray needs Ray; pip install 'dikkat-runtime[ray]'\n"


def test_progress_and_estimate_by_hand() -> None:
    now = [0.0]
    shards = [Shard(Path(f"{n}.txt"), Path(f"out/{n}.txt"), Format("text"), size) for n, size in enumerate((300, 100))]
    shown = Progress(shards, None, lambda: now[0])
    assert shown.line() == "0 of 2 files, 0 rows, 0 rows/s"
    now[0] = 30.0
    shown.at(0, Work(shards[0]), 20, 0.5)
    shown.done(1, shards[1].size, 40)
    # 100 + 150 of 400 bytes in 30 s: 18 s are left
    assert shown.line() == "1 of 2 files, 60 rows, 2 rows/s, 0:18 left"
    shown.lost(0)
    assert shown.line() == "1 of 2 files, 40 rows, 1 row/s, 1:30 left".replace("1 row/s", "1 rows/s")
    assert clock_time(3_723.4) == "1:02:03"
    line = estimate_line({"rows": 30.0, "seconds": 60.0}, shards[0], shards, 2)
    assert (
        line == "about 40 rows in 2 files: 0:40 by 2 workers, 1:20 of processor time "
        "(estimated from the first rows of 0.txt)"
    )
    assert (progress.PLAIN_EVERY, driver.TRIES) == (15.0, 3)
