"""A classifier with an n-gram table as a user has it: what decided is told whole, and attention is not all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.system.test_classifier import TRAIN, options, reviews, write_table
from tests.system.toy import Command, kept_signals

from dikkat import Classifier
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification import train
from dikkat.tasks.classification.decisive_words import decisive_words
from dikkat.tasks.common.settings import Request, run_config
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import DataError, UsageError

TEXT = "the film was superb and the story it"
NOTE = "this is the attention of the encoder, which decides together with a table of words and word pairs"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished classifier. Look, do not touch."""
    folder = tmp_path_factory.mktemp("table")
    data = write_table(folder / "train.tsv", reviews(200))
    with kept_signals():
        arguments = options(classifier__ngram_rows=4096, training__max_epochs=5, training__validations=1)
        assert run_command([*TRAIN, str(data), "--out", str(folder / "run"), *arguments]) == 0
    return folder / "run"


def test_the_parts_of_encoder_and_table_add_up_to_the_log_odds(run: Path) -> None:
    model = Classifier.load(run)
    explained = decisive_words(model, TEXT)
    odds = explained.answer.probabilities["pos"] / explained.answer.probabilities["neg"]
    assert explained.answer.label == "pos"
    assert len(explained.leads) == 2
    assert 2.718281828 ** sum(explained.leads) == pytest.approx(odds, rel=1e-4)
    # a word that is hidden is hidden from the table too
    assert explained.words[int(explained.occlusion.argmax())] == "superb"


def test_both_engines_compute_the_table(run: Path) -> None:
    texts = [TEXT, "a dull plot", "music"]
    native, torch = (Classifier.load(run, engine=engine) for engine in ("native", "torch"))
    for one, other in zip(native.classify(texts), torch.classify(texts), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    table = read_tensors(run / "model.safetensors")["ngram_table.embedding"]
    assert tuple(table.shape) == (4096, 2)
    assert table.abs().max() > 1.0


def test_words_name_the_part_of_each(dikkat: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text(f"{TEXT}\n\n", encoding="utf-8")
    code, output, errors = dikkat("classify", run, tmp_path / "texts", "--words", "1", "--engine", "torch")
    first, empty = output.removesuffix("\n").split("\n")
    encoder, table = decisive_words(Classifier.load(run), TEXT).leads
    assert (code, empty) == (0, "\tnan")
    assert first.split("\t")[4] == f"encoder {encoder:+.2f}, table {table:+.2f}"
    assert errors.split("\n")[0].split("\t")[4] == "lead over the next class, by part (nats)"


def test_who_looks_at_attention_is_told_of_the_table(dikkat: Command, run: Path, tmp_path: Path) -> None:
    assert NOTE in dikkat("attend", run, TEXT)[2]
    code, output, errors = dikkat("heads", run, "--sentences", "4", "--json")
    assert (code, NOTE in errors) == (0, True)
    assert json.loads(output)["sentences"] == 4
    assert dikkat("report", run, "--out", tmp_path / "report.html")[0] == 0
    assert NOTE in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "sözcük çiftleri" in dikkat("heads", run, "--sentences", "4", "--language", "tr")[2]


def test_the_table_is_filled_only_where_no_checkpoint_holds_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = list[int]()
    monkeypatch.setattr(train, "fill_ngram_table", lambda model, *_, **__: filled.append(1))
    copy = RunDirectory(shutil.copytree(run, tmp_path / "run"))
    job, config = train.ClassifierJob(Request([])), run_config(copy.read_config(), "settings")
    job.task(copy, config)
    assert (filled, bool(copy.checkpoint_folders())) == ([], True)
    shutil.rmtree(copy.checkpoints)
    job.task(copy, config)
    assert filled == [1]


def test_a_table_too_large_for_its_classes_is_one_line(dikkat: Command, tmp_path: Path) -> None:
    rows = [(f"label {number % 5}", text) for number, (_, text) in enumerate(reviews(120))]
    data = write_table(tmp_path / "many.tsv", rows)
    code, _, errors = dikkat(*TRAIN, data, "--out", tmp_path / "run", "--set", f"classifier.ngram_rows={1 << 24}")
    assert code == 2
    assert errors.splitlines()[-1].endswith(
        "classifier.ngram_rows = 16777216 are too many for 5 classes; set it to 13421772 or less"
    )
    assert not (tmp_path / "run").exists()


def test_another_size_of_the_table_is_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, copy := tmp_path / "copy")
    (copy / "manifest.json").unlink()
    settings = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    for rows in (0, 4000, -1, "many"):
        settings["classifier"]["ngram_rows"] = rows
        (copy / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        for engine in ("native", "torch"):
            with pytest.raises((DataError, UsageError), match="ngram_"):
                _ = Classifier.load(copy, engine=engine).model
