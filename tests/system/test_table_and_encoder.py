"""A classifier with a word table as a user has it: what decided is told whole, and attention is not all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.system.test_classifier import TRAIN, options, reviews, write_table
from tests.system.toy import Command, kept_signals

from dikkat import Classifier
from dikkat.tasks.classification.decisive_words import decisive_words
from dikkat_runtime.cli.main import run as run_command

TEXT = "the film was superb and the story it"
NOTE = "this is the attention of the encoder, which decides together with a table of words and word pairs"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished classifier. Look, do not touch."""
    folder = tmp_path_factory.mktemp("table")
    data = write_table(folder / "train.tsv", reviews(200))
    with kept_signals():
        arguments = options(classifier__word_table=True, training__max_epochs=5, training__validations=1)
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
