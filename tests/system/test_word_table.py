"""A classifier with a word table as a user has it: rare labels, the obvious baseline, the runtime, exports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.system.test_classifier import TRAIN, options
from tests.system.toy import Command, kept_signals
from tests.unit.tasks.test_word_table import marked

from dikkat import Classifier
from dikkat.data.labelled import LabelledText
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.parts import WORD_SCORES, WORD_TABLE
from dikkat_runtime.tasks.classifier import Classifier as RuntimeClassifier
from dikkat_runtime.text.tokenizer import Tokenizer

TABLE = {"classifier__word_table": True, "classifier__baseline": True}


def write(path: Path, texts: list[LabelledText]) -> Path:
    rows = [json.dumps({"label": list(text.labels), "text": text.text}) + "\n" for text in texts]
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished classifier. Look, do not touch; else copy it."""
    folder = tmp_path_factory.mktemp("words")
    data = write(folder / "train.jsonl", marked(600, 1))
    with kept_signals():
        changes = options(**TABLE, training__max_epochs=1, training__validations=1)
        assert run_command([*TRAIN, str(data), "--out", str(folder / "run"), *changes]) == 0
    return folder / "run"


def test_rare_labels_are_given_and_compared_with_the_baseline(dikkat: Command, run: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "test.jsonl", marked(300, 2))
    code, output, _ = dikkat("evaluate", run, data)
    scores = json.loads(dikkat("evaluate", run, data, "--json")[1])["scores"]
    assert f"micro F1 {100 * scores['micro_f1']:.2f} %" in output
    assert code == 0
    assert float(output.split("micro F1 ")[1].split(" ")[0]) > 96
    assert "baseline, TF-IDF with logistic regression, " in output
    shutil.copytree(run, other := tmp_path / "other")
    settings = json.loads((other / "config.json").read_text(encoding="utf-8"))
    settings["data_source"]["data"] = [str(data)]
    (other / "manifest.json").unlink()
    (other / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    _, output, errors = dikkat("evaluate", other, data)
    assert "baseline" not in output
    assert f"there is no baseline for this score: {data}: is no longer what this run was trained on" in errors
    card = (run / "card.md").read_text(encoding="utf-8")
    assert "aseline, TF-IDF with logistic regression, " in card
    baseline = json.loads((run / "config.json").read_text(encoding="utf-8"))["data_source"]["baseline"]
    assert (baseline["measure"], 0 < baseline["score"] <= 100) == ("micro_f1", True)


def test_the_runtime_and_both_engines_answer_the_same(run: Path) -> None:
    texts = [text.text for text in marked(20, 3)] + ["song", "nothing that was ever seen"]
    answers = [
        RuntimeClassifier.load(run).classify(texts),
        Classifier.load(run, engine="native").classify(texts),
        Classifier.load(run, engine="torch").classify(texts),
    ]
    for one, *others in zip(*answers, strict=True):
        for other in others:
            assert one.labels == other.labels
            np.testing.assert_allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-5)
    assert "music" in answers[0][-2].labels


def test_a_table_that_decides_alone_has_no_text_cut_into_tokens(
    dikkat: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the encoder adds nothing, the answers are those of the table over numpy; no text is cut for the encoder."""
    texts = [text.text for text in marked(40, 3)] + ["", " \t\u2003", "\x07", "İ “song” — ½", "song " * 500]
    classifier = RuntimeClassifier.load(run, threads=2)
    expected, table, decision = classifier.classify(texts), classifier.table, classifier.decision
    assert table is not None
    assert decision.encoder_weight == 0.0
    table.threads = 0
    shares = 1 / (1 + np.exp(-table.scores(texts).astype(np.float64) / decision.temperature))
    for answer, share, text in zip(expected, shares, texts, strict=True):
        assert bool(answer.probabilities) == bool(text.strip())
        if answer.probabilities:
            np.testing.assert_allclose(list(answer.probabilities.values()), share, atol=1e-6)
    with pytest.raises(DataError, match="half of a surrogate pair"):
        classifier.classify(["song", "\ud800"])
    monkeypatch.setattr(Tokenizer, "encode_batch", None)
    for threads, window in ((1, 3), (2, 1), (5, 100)):
        again = RuntimeClassifier.load(run, threads=threads)
        assert list(again.stream(texts, window=window)) == expected
    (tmp_path / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
    code, output, errors = dikkat("classify", run, tmp_path / "texts")
    assert code == 0
    assert output.split("\n")[:-1] == [
        "\t".join(f"{label}\t{answer.probabilities[label]:.4f}" for label in answer.labels) if answer.label else "\tnan"
        for answer in expected
    ]
    assert "2 lines without words: no label (line 41)" in errors
    assert "tokens" not in errors


def test_what_cannot_hold_the_table_refuses_it_by_name(dikkat: Command, run: Path, tmp_path: Path) -> None:
    assert dikkat("page", run, "--out", tmp_path / "page.html")[0] == 0
    code, _, errors = dikkat("export", run, "--to", "onnx", "--out", tmp_path / "onnx")
    assert code == 2
    line = errors.splitlines()[-1]
    assert "word table (word_table.safetensors)" in line
    data = run.parent / "train.jsonl"
    assert f"dikkat train classifier {data} --out {run}-without --set classifier.word_table=false" in line


def test_resumed_with_a_table_is_bit_identical(dikkat: Command, run: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    changes = options(**TABLE, training__max_epochs=2, training__validations=2, training__patience=9)
    data = run.parent / "train.jsonl"
    assert dikkat(*TRAIN, data, "--out", whole, *changes, "--set", "training.keep_checkpoints=2")[0] == 0
    shutil.copytree(whole, broken)
    (broken / "card.md").unlink()
    steps = sorted((broken / "checkpoints").iterdir())
    assert len(steps) == 2
    shutil.rmtree(steps[1])
    assert dikkat(*TRAIN, "--out", broken, "--resume")[0] == 0
    for name in ("model.safetensors", f"checkpoints/{steps[1].name}/model.safetensors", WORD_TABLE, WORD_SCORES):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


def test_a_damaged_table_is_one_line(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, copy := tmp_path / "copy")
    (copy / "manifest.json").unlink()
    path = copy / "word_table.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="word_table"):
        RuntimeClassifier.load(copy)
