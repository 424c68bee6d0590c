"""A classifier as a user has it: trained, asked, scored, explained, resumed, and given bad input."""

from __future__ import annotations

import io
import json
import math
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.system.toy import TINY, Command, kept_signals
from tests.system.written_maps import written_maps

from dikkat import Classifier, load
from dikkat.config import RunConfig
from dikkat.explain.doctor import examine
from dikkat.models.classifier import EncoderClassifier
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification.decisive_words import decisive_words
from dikkat.tasks.classification.train import best_row
from dikkat.tasks.inspection.doctor import load_model
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.classifier import Classifier as RuntimeClassifier
from dikkat_runtime.tasks.decisive_words import decisive_words as words_by_any_engine

TRAIN = ("train", "classifier")
WORDS = {
    "neg": ["awful", "dull", "poor", "silly"],
    "pos": ["superb", "lovely", "fine", "moving"],
    "odd": ["weird", "strange", "queer", "bizarre"],
}
NEUTRAL = ["the", "film", "a", "plot", "with", "actors", "story", "and", "in", "of", "music", "scene", "was", "it"]
MAX_TOKENS = 40


def options(**changes: object) -> list[str]:
    small = {name: value for name, value in TINY.items() if name != "model.decoder_layers"}
    merged = {
        **small,
        "training.max_epochs": 20,
        "training.validations": 4,
        "classifier.max_tokens": MAX_TOKENS,
        "classifier.word_table": False,
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    return [word for name, value in merged.items() for word in ("--set", f"{name}={value}")]


def reviews(count: int, labels: Sequence[str] = ("neg", "pos"), seed: int = 3) -> list[tuple[str, str]]:
    """Distinct texts of neutral words and one word that decides; the labels take turns."""
    generator = random.Random(seed)
    result: dict[str, str] = {}
    while len(result) < count:
        label = labels[len(result) % len(labels)]
        words = generator.choices(NEUTRAL, k=generator.randint(4, 12))
        words[generator.randrange(len(words))] = generator.choice(WORDS[label])
        result.setdefault(" ".join(words), label)
    return [(label, text) for text, label in result.items()]


def write_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("reviews") / "train.tsv", reviews(300))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A finished classifier. Look, do not touch; else copy it."""
    out = tmp_path_factory.mktemp("classifier") / "run"
    with kept_signals():
        assert run_command([*TRAIN, str(data), "--out", str(out), *options()]) == 0
    return out


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> object:
    def give(text: str) -> None:
        stream = SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
        monkeypatch.setattr("sys.stdin", stream)

    return give


class TestUse:
    def test_attend_shows_what_the_encoder_looks_at(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        text = "the film was superb"
        for name in ("a.png", "a.svg", "a.npz", "a.json"):
            assert dikkat("attend", run, text, "--out", tmp_path / name) == (0, "", f"wrote {tmp_path / name}\n")
        (result,), (packed,) = written_maps(tmp_path / "a.json"), written_maps(tmp_path / "a.npz")
        assert (result.source, result.output, result.output_tokens) == (text, "", ())
        assert result.source_tokens[0] == "<bos>"
        assert result.source_tokens == packed.source_tokens
        assert {(item.stack, item.kind) for item in result.maps} == {("encoder", "self")}
        assert dikkat("attend", run, text, "--words", "--head", "1", "--out", tmp_path / "w.json")[0] == 0
        (words,) = written_maps(tmp_path / "w.json")
        assert words.source_tokens == ("<bos>", *text.split())
        assert {item.head for item in words.maps} == {0}

    @pytest.mark.parametrize(
        ("name", "arguments", "message"),
        [
            ("a.png", ["--kind", "cross"], "--kind cross: a classifier has no cross-attention; choose from encoder"),
            ("a.png", ["--beam", "2"], "--beam is for a translator, but {run} holds a classifier; leave it out"),
            ("a.json", ["--target", "x"], "--target is for a translator, but {run} holds a classifier; leave it out"),
            ("a.npz", ["--n-best", "2"], "--n-best is for a translator, but {run} holds a classifier; leave it out"),
            ("a.align", [], "a.align: is for translators, but {run} holds a classifier; write one of .png, .svg, "),
            ("a.png", ["--layer", "9"], "there is no layer 9 in the encoder self-attention: choose from"),
        ],
    )
    def test_attend_refuses_what_only_a_translator_has(
        self, dikkat: Command, run: Path, tmp_path: Path, name: str, arguments: list[str], message: str
    ) -> None:
        complaint = dikkat.fails(2, "attend", run, "the film", *arguments, "--out", tmp_path / name)
        assert message.format(run=run) in complaint
        empty = dikkat.fails(65, "attend", run, " ", "--out", tmp_path / "e.png")
        assert empty == "there is nothing to attend to in an empty text; give a few words"
        assert not list(tmp_path.iterdir())

    def test_learns_what_one_word_decides(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        test = write_table(tmp_path / "test.tsv", reviews(200, seed=77))
        code, output, _ = dikkat("evaluate", run, test)
        assert code == 0
        assert float(output.split()[1]) >= 95.0
        assert "is \\ taken for" in output
        assert "macro F1" in output
        assert "calibration error" in output

    def test_lines_in_are_lines_out(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        texts = [text for _, text in reviews(30, seed=78)]
        file = tmp_path / "texts.txt"
        file.write_text("\n".join([*texts[:10], "", "  \t ", *texts[10:]]) + "\n", encoding="utf-8")
        code, output, notes = dikkat("classify", run, file)
        rows = [line.split("\t") for line in output.removesuffix("\n").split("\n")]
        assert code == 0
        assert len(rows) == 32
        assert all(len(row) == 2 for row in rows)
        assert rows[10] == rows[11] == ["", "nan"]
        assert all(row[0] in ("neg", "pos") and 0.5 <= float(row[1]) <= 1.0 for row in rows[:10] + rows[12:])
        assert notes == "2 lines without words: no label (line 11)\n"

    def test_all_classes_of_standard_input(self, dikkat: Command, run: Path, standard_input: object) -> None:
        standard_input("the film was superb\n")  # type: ignore[operator]
        code, output, _ = dikkat("classify", run, "--all")
        label, first, other, second = output.removesuffix("\n").split("\t")
        assert (code, label, other) == (0, "pos", "neg")
        assert float(first) + float(second) == pytest.approx(1.0, abs=2e-4)

    def test_load_gives_a_classifier_and_batches_change_nothing(self, run: Path) -> None:
        classifier = load(run)
        assert isinstance(classifier, Classifier)
        texts = [text for _, text in reviews(40, seed=5)]
        together = classifier.classify(texts)
        for text, result in zip(texts[::7], together[::7], strict=True):
            (alone,) = classifier.classify([text])
            assert alone.label == result.label
            assert alone.probability == pytest.approx(result.probability, abs=1e-6)

    def test_the_word_that_decides_is_found(self, run: Path) -> None:
        explained = decisive_words(Classifier.load(run), "the film was superb and the story it")
        assert explained.answer.label == "pos"
        assert explained.words == ("the", "film", "was", "superb", "and", "the", "story", "it")
        assert explained.words[int(explained.occlusion.argmax())] == "superb"
        assert 0.0 < explained.attention.sum() < 1.0
        assert explained.attention.min() > 0.0

    def test_words_and_picture(self, dikkat: Command, run: Path, tmp_path: Path, standard_input: object) -> None:
        standard_input("the film was superb and the story it\n\n")  # type: ignore[operator]
        code, output, heading = dikkat("classify", run, "--words", "2", "--engine", "torch")
        names = [
            "label",
            "probability",
            "words that decided (nats the label loses without)",
            "words looked at (attention)",
        ]
        assert heading.split("\n")[0].split("\t") == names
        first, empty = output.removesuffix("\n").split("\n")
        label, _, left_out, looked_at = first.split("\t")
        assert (code, label, empty) == (0, "pos", "\tnan")
        assert left_out.startswith("superb +")
        assert looked_at.count("%") == 2
        standard_input("the film was superb\n")  # type: ignore[operator]
        assert dikkat("classify", run, "--picture", tmp_path / "words.png")[0] == 0
        assert (tmp_path / "words.png").read_bytes().startswith(b"\x89PNG")

    def test_words_come_from_the_native_engine_too(self, dikkat: Command, run: Path, standard_input: object) -> None:
        """Both hide a word from the same places, so that they say the same of it."""
        text = "the film was superb and the story it"
        standard_input(f"{text}\n\n")  # type: ignore[operator]
        code, output, notes = dikkat("classify", run, "--words", "2")
        heading = "label\tprobability\twords that decided (nats the label loses without)"
        assert (code, heading in notes, dikkat.engine.startswith("native engine")) == (0, True, True)
        assert output.split("\n")[0].split("\t")[2].startswith("superb +")
        assert output.split("\n")[1] == "\tnan"
        ((one,), other) = (
            words_by_any_engine(RuntimeClassifier.load(run, engine="native"), text),
            decisive_words(Classifier.load(run, engine="torch"), text),
        )
        assert one.words == other.words
        np.testing.assert_allclose(one.occlusion, other.occlusion, atol=1e-4)

    def test_a_label_that_is_not_likely_is_withheld(self, dikkat: Command, run: Path, standard_input: object) -> None:
        standard_input("the film was superb\n")  # type: ignore[operator]
        sure = float(dikkat("classify", run)[1].split("\t")[1])
        for least, label in ((sure - 0.001, "pos"), (min(1.0, sure + 0.001), "")):
            standard_input("the film was superb\n")  # type: ignore[operator]
            code, output, notes = dikkat("classify", run, "--abstain", f"{least:.4f}")
            assert (code, output.split("\t")[0], "label withheld" in notes) == (0, label, not label)

    def test_words_are_shown_as_typed(self, dikkat: Command, run: Path, standard_input: object) -> None:
        """Bytes, lower case and a text cut in its middle are matters of the model."""
        standard_input("the food was très déçu 😀 and Çok güzel\n" + "Filmé " * 60 + "\n")  # type: ignore[operator]
        code, output, _ = dikkat("classify", run, "--words", "20", "--engine", "torch")
        first, long = output.removesuffix("\n").split("\n")
        assert code == 0
        for column in first.split("\t")[2:]:
            shown = [part.rsplit(" ", 1)[0] for part in column.split(", ")]
            assert sorted(shown) == sorted(["the", "food", "was", "très", "déçu", "😀", "and", "Çok", "güzel"])
        assert {part.rsplit(" ", 1)[0] for part in long.split("\t")[3].split(", ")} == {"Filmé"}

    def test_words_are_shown_without_punctuation_and_markup(
        self, dikkat: Command, run: Path, standard_input: object
    ) -> None:
        # two lines, since this model reads forty tokens
        standard_input('It was ("superb").<br /><br />\n<i>music</i>... don\'t C# !!\n')  # type: ignore[operator]
        code, output, _ = dikkat("classify", run, "--words", "20")
        assert code == 0
        first, second = (
            [part.rsplit(" ", 1)[0] for part in line.split("\t")[2].split(", ")]
            for line in output.rstrip("\n").split("\n")
        )
        assert sorted(first) == ["<br />", "<br />", "It", "superb", "was"]
        assert sorted(second) == ["!!", "...", "</i>", "<i>", "C#", "don't", "music"]

    def test_mistakes_and_the_confusion_matrix_as_a_picture(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        test = write_table(tmp_path / "test.tsv", [("neg", "a superb film of music"), *reviews(20, seed=8)])
        code, output, _ = dikkat("evaluate", run, test, "--samples", "1", "--picture", tmp_path / "matrix.png")
        assert code == 0
        assert output.split("\n")[-2].startswith("line 1: is neg, taken for pos (")
        assert (tmp_path / "matrix.png").read_bytes().startswith(b"\x89PNG")

    def test_probabilities_are_those_of_the_fitted_temperature(self, run: Path) -> None:
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
        best = best_row(rows, RunConfig())
        assert best["accuracy"] == max(row["accuracy"] for row in rows)
        classifier = Classifier.load(run)
        assert classifier.decision.temperature == best["temperature"]
        (result,) = classifier.classify(["the film was superb"])
        classifier.decision = replace(classifier.decision, temperature=1.0)
        (plain,) = classifier.classify(["the film was superb"])
        odds = [math.log(item.probabilities["pos"] / item.probabilities["neg"]) for item in (result, plain)]
        assert odds[0] * best["temperature"] == pytest.approx(odds[1], rel=1e-6)

    def test_the_card_tells_data_and_scores(self, run: Path) -> None:
        card = (run / "card.md").read_text(encoding="utf-8")
        assert card.startswith("# Classifier: neg, pos\n")
        assert "accuracy" in card
        assert "macro F1" in card
        assert "To reproduce it:" in card


class TestChoices:
    @pytest.mark.parametrize(
        ("labels", "settings"),
        [
            pytest.param(
                ("neg", "odd", "pos"),
                {"classifier__pooling": "attention", "classifier__word_dropout": 0.1, "training__max_epochs": 25},
                marks=pytest.mark.nightly,
            ),
            (("neg", "pos"), {"classifier__pooling": "first", "classifier__objective": "binary"}),
        ],
    )
    def test_other_poolings_and_objectives_learn(
        self, dikkat: Command, tmp_path: Path, labels: tuple[str, ...], settings: dict[str, object]
    ) -> None:
        train = write_table(tmp_path / "train.tsv", reviews(300, labels))
        test = write_table(tmp_path / "test.tsv", reviews(150, labels, seed=77))
        out = tmp_path / "run"
        assert dikkat(*TRAIN, train, "--out", out, *options(**settings))[0] == 0
        assert float(dikkat("evaluate", out, test)[1].split()[1]) >= 95.0

    def test_balance_learns_a_rare_class(self, dikkat: Command, tmp_path: Path) -> None:
        rows = [row for row in reviews(640) if row[0] == "neg"] + reviews(36, ("pos",))
        random.Random(1).shuffle(rows)
        valid = write_table(tmp_path / "valid.tsv", reviews(60, seed=9))
        out = tmp_path / "run"
        train = write_table(tmp_path / "train.tsv", rows)
        assert dikkat(*TRAIN, train, "--valid", valid, "--out", out, "--balance", *options())[0] == 0
        assert best_row(RunDirectory.open(out).read_metrics(), RunConfig())["macro_f1"] >= 95.0

    def test_a_test_part_is_held_out_on_request(self, dikkat: Command, data: Path, run: Path, tmp_path: Path) -> None:
        assert dikkat.fails(2, "evaluate", run).endswith("this run held out no test part; name data to evaluate on")
        out = tmp_path / "run"
        short = options(data__test_pairs=15, training__max_epochs=1, training__validations=1)
        assert dikkat(*TRAIN, data, "--out", out, *short)[0] == 0
        assert "of 15 texts" in dikkat("evaluate", out)[1]


def told(notes: str) -> list[str]:
    """What was said of the data before training."""
    return notes[: notes.index("read ")].split("\n")[:-1]


class TestTable:
    """What the data looks like is said before anything is trained on it."""

    SHORT = options(training__max_epochs=1, training__validations=1)

    def test_header_and_order_are_found(self, dikkat: Command, tmp_path: Path) -> None:
        rows = [(text, label) for label, text in reviews(60)]
        data = write_table(tmp_path / "data.tsv", [("text", "label"), *rows])
        code, _, notes = dikkat(*TRAIN, data, "--out", tmp_path / "run", *self.SHORT)
        assert code == 0
        assert told(notes) == [
            f"{data}: columns separated by tab, a header row (“text”, “label”), label = column 2, text = column 1",
            "held out: 3 texts to validate on; none of them is trained on",
        ]
        assert RunDirectory.open(tmp_path / "run").read_config()["labels"] == ["neg", "pos"]
        bare = write_table(tmp_path / "bare.tsv", rows)
        code, output, notes = dikkat("evaluate", tmp_path / "run", bare)
        assert (code, notes.count("\n")) == (0, 1)
        assert notes.startswith(f"{bare}: label = column 2 (2 different, such as “neg”), text = column 1")
        assert "of 60 texts" in output

    def test_validation_on_what_was_trained_on_is_not_called_new(self, dikkat: Command, tmp_path: Path) -> None:
        rows = [*reviews(40), ("odd", "a weird film"), ("odd", "a bizarre one")]
        data = write_table(tmp_path / "data.tsv", rows)
        valid = write_table(tmp_path / "valid.tsv", rows[:10])
        code, _, notes = dikkat(*TRAIN, data, "--valid", valid, "--out", tmp_path / "run", *self.SHORT)
        assert code == 0
        assert told(notes) == [
            "all 10 validation texts are in the training data too: scores on them do not say how well new texts are"
            " classified",
            "no validation text of “odd”: macro F1 is over the other 2",
        ]
        card = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
        assert "Validation on 10 texts, 10 of which stand in the training data too:" in card
        assert " % (no text of odd)\n" in card
        output = dikkat("evaluate", tmp_path / "run", valid)[1]
        assert re.search(r"macro F1 [0-9.]+ % over [23] of 3 \(no text of: odd\)\n", output)

    def test_every_class_is_held_out(self, dikkat: Command, tmp_path: Path) -> None:
        data = write_table(tmp_path / "data.tsv", [*reviews(60), ("odd", "a weird film"), ("odd", "a bizarre one")])
        code, _, notes = dikkat(*TRAIN, data, "--out", tmp_path / "run", *self.SHORT)
        assert (code, told(notes)) == (0, ["held out: 4 texts to validate on; none of them is trained on"])
        assert "odd" in (tmp_path / "run" / "held_out" / "validation.target.txt").read_text().split("\n")

    def test_ids_are_no_labels(self, dikkat: Command, tmp_path: Path) -> None:
        data = write_table(tmp_path / "ids.tsv", [(str(n), text) for n, (_, text) in enumerate(reviews(30))])
        message = dikkat.fails(65, *TRAIN, data, "--out", tmp_path / "run")
        assert message.startswith(f"{data}: 30 different labels on 30 texts, such as “0”, “1”: that looks like")
        assert not (tmp_path / "run").exists()


def several(count: int, seed: int = 3) -> list[tuple[list[str], str]]:
    """Texts with a word for each of their labels, of which some have none."""
    generator = random.Random(seed)
    rows: dict[str, list[str]] = {}
    while len(rows) < count:
        labels = [label for label in WORDS if generator.random() < 0.45]
        words = [*generator.choices(NEUTRAL, k=6), *(generator.choice(WORDS[label]) for label in labels)]
        rows[" ".join(generator.sample(words, len(words)))] = labels
    return [(labels, text) for text, labels in rows.items()]


@pytest.fixture(scope="module")
def several_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    (folder / "train.jsonl").write_text(
        "".join(json.dumps({"label": labels, "text": text}) + "\n" for labels, text in several(300))
    )
    with kept_signals():
        arguments = [*TRAIN, str(folder / "train.jsonl"), "--out", str(folder / "run"), *options()]
        assert run_command(arguments) == 0
    return folder / "run"


class TestManyLabels:
    def test_learned_scored_and_told(self, dikkat: Command, several_run: Path, tmp_path: Path) -> None:
        rows = several(150, seed=77)
        data = tmp_path / "test.jsonl"
        data.write_text("".join(json.dumps({"label": labels, "text": text}) + "\n" for labels, text in rows))
        code, output, _ = dikkat("evaluate", several_run, data, "--samples", "1")
        assert code == 0
        assert float(re.search(r"micro F1 ([0-9.]+) %", output)[1]) >= 90.0  # type: ignore[index]
        assert re.search(r"subset accuracy [0-9.]+ %  \([0-9]+ of 150 texts got their labels exactly\)\n", output)
        assert re.search(r"\nodd +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+\n", output)
        card = (several_run / "card.md").read_text(encoding="utf-8")
        assert "- micro F1 " in card
        assert "- subset accuracy " in card
        assert "texts the model never saw:" in card

    def test_labels_above_a_half_a_line_each_text(self, dikkat: Command, several_run: Path, tmp_path: Path) -> None:
        file = tmp_path / "texts.txt"
        file.write_text("the plot was superb and weird\n\nthe film with music in it\n")
        code, output, notes = dikkat("classify", several_run, file)
        first, empty, none, rest = output.split("\n")
        assert (code, empty, none, rest) == (0, "\tnan", "", "")
        cells = first.split("\t")
        assert set(cells[::2]) == {"pos", "odd"}
        assert float(cells[1]) >= float(cells[3]) >= 0.5
        assert notes == "1 line without words: no label (line 2)\n"
        every = dikkat("classify", several_run, file, "--all")[1].split("\n")[2].split("\t")
        assert set(every[::2]) == {"neg", "odd", "pos"}
        assert all(float(share) < 0.5 for share in every[1::2])
        (answer,) = Classifier.load(several_run).classify(["the plot was superb and weird"])
        assert set(answer.labels) == {"pos", "odd"}
        assert answer.label == cells[0]

    def test_a_separator_gives_the_same_model(self, dikkat: Command, several_run: Path, tmp_path: Path) -> None:
        data = write_table(tmp_path / "train.tsv", [(";".join(labels), text) for labels, text in several(300)])
        out = tmp_path / "run"
        assert dikkat(*TRAIN, data, "--label-separator", ";", "--out", out, *options())[0] == 0
        assert (out / "model.safetensors").read_bytes() == (several_run / "model.safetensors").read_bytes()
        assert dikkat("evaluate", out, data)[0] == 0

    def test_the_doctor_finds_nothing(self, dikkat: Command, several_run: Path) -> None:
        code, output, _ = dikkat("doctor", several_run)
        assert code == 0, output

    def test_what_is_for_one_label_is_refused(self, dikkat: Command, several_run: Path, tmp_path: Path) -> None:
        data = several_run.parent / "train.jsonl"
        assert dikkat.fails(2, "classify", several_run, "--abstain", "0.9").startswith("--abstain withholds the one")
        message = dikkat.fails(2, "classify", several_run, "--words", "2", "--engine", "torch")
        assert (
            message == f"--words explains one class; {several_run} gives a text any number of labels, so leave it out"
        )
        picture = tmp_path / "matrix.png"
        message = dikkat.fails(2, "evaluate", several_run, data, "--picture", picture)
        assert message == f"{picture}: a confusion matrix needs texts with one label each"
        message = dikkat.fails(2, *TRAIN, data, "--balance", "--out", tmp_path / "run")
        assert message == "settings: --balance is for texts of one label each, but here they have any number"
        binary = ("--set", "classifier.objective=cross_entropy")
        message = dikkat.fails(2, *TRAIN, data, "--out", tmp_path / "run", *binary)
        assert message.startswith("settings: classifier.objective = cross_entropy is for texts of one label each")
        assert not (tmp_path / "run").exists()

    def test_texts_of_several_labels_do_not_score_a_classifier_of_one(
        self, dikkat: Command, several_run: Path, data: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "run"
        assert dikkat(*TRAIN, data, "--out", out, *TestTable.SHORT)[0] == 0
        other = tmp_path / "other.jsonl"
        other.write_text('{"label": ["neg", "pos"], "text": "both"}\n')
        message = dikkat.fails(65, "evaluate", out, other)
        assert message == f"{other}:1: has 2 labels, but this classifier was trained on texts with one label each"


class TestLongValidation:
    def test_a_longer_text_in_validation_than_in_training(self, dikkat: Command, tmp_path: Path) -> None:
        """The table of rotary positions grew in inference mode, and no update could follow, not even after a resume."""
        data = write_table(tmp_path / "train.tsv", reviews(40))
        valid = write_table(tmp_path / "valid.tsv", [*reviews(10, seed=9), ("pos", "superb " * 290)])
        settings = options(
            model__positions="rotary", classifier__max_tokens=400, training__max_epochs=3, training__validations=3
        )
        assert dikkat(*TRAIN, data, "--valid", valid, "--out", tmp_path / "run", *settings)[0] == 0
        assert len(RunDirectory.open(tmp_path / "run").read_metrics()) == 3


class TestDoctor:
    @pytest.mark.parametrize("settings", [{}, {"classifier__pooling": "attention", "classifier__objective": "binary"}])
    def test_every_proof_on_a_classifier_passes(
        self, dikkat: Command, data: Path, run: Path, tmp_path: Path, settings: dict[str, object]
    ) -> None:
        if settings:
            run = tmp_path / "run"
            short = options(**settings, training__max_epochs=2, training__validations=1)
            assert dikkat(*TRAIN, data, "--out", run, *short)[0] == 0
        code, output, _ = dikkat("doctor", run)
        assert code == 0, output
        assert output.endswith("all 7 proofs pass\n")

    def test_a_classifier_that_sees_padding_fails(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        model = load_model(run)
        assert isinstance(model, EncoderClassifier)
        monkeypatch.setattr(model.pooling, "forward", lambda x, mask: x.mean(dim=1))
        failed = [proof.name for proof in examine(model) if proof.outcome == "fail"]
        assert failed == ["padding changes nothing"]


class TestInit:
    def test_begins_with_the_encoder_of_a_translator(
        self, dikkat: Command, data: Path, trained: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "run"
        short = ("--set", "training.max_epochs=1", "--set", "training.validations=1")
        assert dikkat(*TRAIN, data, "--out", out, "--from", trained, *short)[0] == 0
        inputs, taken = read_tensors(trained / "model.safetensors"), read_tensors(out / "initial.safetensors")
        # tied to the output, and so saved under its name
        assert taken["embedding.weight"].equal(inputs["output_weight"])
        encoder = [name for name in inputs if name.startswith("encoder.")]
        assert encoder
        assert all(taken[name].equal(inputs[name]) for name in encoder)
        assert (out / "tokenizer.json").read_text() == (trained / "tokenizer.json").read_text()

    def test_begins_with_a_masked_language_model_of_the_same_texts(
        self, dikkat: Command, data: Path, tmp_path: Path
    ) -> None:
        text = tmp_path / "text.txt"
        text.write_text("".join(f"{line}\n" for _, line in reviews(300)), encoding="utf-8")
        lm, out, start = tmp_path / "lm", tmp_path / "run", ("--set", "training.validations=1")
        shape = {name: TINY[name] for name in ("model.model_dim", "model.num_heads", "model.feed_forward_dim")}
        asked = {**shape, "model.decoder_layers": 2, "tokenizer.kind": "bpe", "tokenizer.vocab_size": 320}
        asked |= {"language_model.objective": "masked", "language_model.context": 32, "training.max_updates": 3}
        settings = [word for name, value in asked.items() for word in ("--set", f"{name}={value}")]
        assert dikkat("train", "lm", text, "--out", lm, *start, *settings)[0] == 0
        short = (*start, "--set", "training.max_epochs=1")
        assert dikkat(*TRAIN, data, "--out", out, "--from", lm, *short)[0] == 0
        inputs, taken = read_tensors(lm / "model.safetensors"), read_tensors(out / "initial.safetensors")
        blocks = [name for name in inputs if name.startswith("decoder.")]
        assert {name.split(".")[2] for name in blocks if ".blocks." in name} == {"0", "1"}
        assert all(taken[name.replace("decoder.", "encoder.")].equal(inputs[name]) for name in blocks)
        (answer,) = Classifier.load(out).classify(["a fine film"])
        assert answer.label in ("neg", "pos")

    def test_the_first_part_that_does_not_fit_is_named(
        self, dikkat: Command, data: Path, trained: Path, tmp_path: Path
    ) -> None:
        wider = ("--set", "model.feed_forward_dim=96")
        message = dikkat.fails(2, *TRAIN, data, "--out", tmp_path / "run", "--from", trained, *wider)
        assert message.startswith(f"{trained}: cannot start from it: its encoder.blocks.0.feed_forward.")
        assert "has the shape (64, 64), not (96, 64)" in message
        deeper = ("--set", "model.encoder_layers=2")
        message = dikkat.fails(2, *TRAIN, data, "--out", tmp_path / "run", "--from", trained, *deeper)
        assert message.startswith(f"{trained}: cannot start from it: it has no encoder.blocks.1.")
        assert not (tmp_path / "run").exists()

    def test_a_run_of_another_kind(self, dikkat: Command, data: Path, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, other := tmp_path / "other")
        settings = json.loads((other / "config.json").read_text())
        (other / "manifest.json").unlink()
        (other / "config.json").write_text(json.dumps({**settings, "task": "digits"}))
        message = dikkat.fails(2, *TRAIN, data, "--out", tmp_path / "run", "--from", other)
        assert message == f'{other}: holds a "digits"; a classifier cannot start from its encoder'


@pytest.mark.parametrize("kernels", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_resumed_from_a_checkpoint_is_bit_identical(
    dikkat: Command, data: Path, tmp_path: Path, kernels: bool, request: pytest.FixtureRequest
) -> None:
    if not kernels:
        request.getfixturevalue("without_kernels")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    settings = options(
        training__max_epochs=3, training__validations=3, training__keep_checkpoints=3, classifier__word_dropout=0.2,
        training__patience=9,
    )  # fmt: skip
    assert dikkat(*TRAIN, data, "--out", whole, *settings)[0] == 0
    shutil.copytree(whole, broken)
    (broken / "card.md").unlink()
    steps = sorted((broken / "checkpoints").iterdir())
    assert len(steps) == 3
    for step in steps[1:]:
        shutil.rmtree(step)
    assert dikkat(*TRAIN, "--out", broken, "--resume")[0] == 0
    for name in ("model.safetensors", *(f"checkpoints/{step.name}/model.safetensors" for step in steps)):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


class TestBadInput:
    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        return tmp_path / "run"

    def test_one_class_only(self, dikkat: Command, out: Path, tmp_path: Path) -> None:
        data = write_table(tmp_path / "one.tsv", reviews(40, ("pos",)))
        message = dikkat.fails(65, *TRAIN, data, "--out", out)
        assert message == f'{data}: only one label, "pos", on 40 texts; a classifier needs two labels or more'
        twice = write_table(tmp_path / "twice.tsv", [*reviews(5, ("pos",)), *reviews(4, ("pos",))])
        assert dikkat.fails(65, *TRAIN, twice, "--out", out).startswith(
            f'{twice}: only one label, "pos", on 5 texts of 9 read (left out 4 duplicate, such as line 6: “pos” → “'
        )
        assert not out.exists()

    def test_an_empty_text_in_training(self, dikkat: Command, out: Path, tmp_path: Path) -> None:
        data = write_table(tmp_path / "empty.tsv", [*reviews(40), ("pos", " ")])
        message = dikkat.fails(65, *TRAIN, data, "--out", out)
        assert message == f"{data}:41: the text is empty; fill it in, or remove the line"

    def test_too_few_to_validate_on(self, dikkat: Command, out: Path, tmp_path: Path) -> None:
        data = write_table(tmp_path / "few.tsv", reviews(6))
        message = dikkat.fails(65, *TRAIN, data, "--out", out)
        assert message == (
            f"{data}: 6 texts leave none to validate on, which takes 20 different ones; give more texts, or name"
            " validation data with --valid"
        )

    def test_binary_with_three_classes(self, dikkat: Command, out: Path, tmp_path: Path) -> None:
        data = write_table(tmp_path / "three.tsv", reviews(60, ("neg", "odd", "pos")))
        message = dikkat.fails(2, *TRAIN, data, "--out", out, *options(classifier__objective="binary"))
        assert message == f"{data}: classifier.objective = binary is for 2 classes, but there are 3"

    def test_an_unseen_label_in_validation_and_evaluation(
        self, dikkat: Command, data: Path, run: Path, out: Path, tmp_path: Path
    ) -> None:
        other = write_table(tmp_path / "other.tsv", [("pos", "fine"), ("pso", "also fine")])
        wanted = f'{other}:2: the label "pso" was not in the training data; did you mean "pos"?; known: neg, pos'
        assert dikkat.fails(65, "evaluate", run, other) == wanted
        assert dikkat.fails(65, *TRAIN, data, "--valid", other, "--out", out) == wanted

    def test_a_text_of_100000_tokens_is_shortened_and_said_so(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        long = ("superb " + "the " * 100_000 + "superb film").strip()
        file = tmp_path / "long.txt"
        file.write_text(f"{long}\n", encoding="utf-8")
        code, output, notes = dikkat("classify", run, file)
        assert code == 0
        assert output.split("\t")[0] in ("neg", "pos")
        assert (
            notes == f"1 line of more than {MAX_TOKENS} tokens: only the first 10 and the last 30 are read (line 1)\n"
        )

    def test_long_texts_in_training_are_counted(self, dikkat: Command, out: Path, tmp_path: Path) -> None:
        rows = [*reviews(40), ("pos", "superb " + "the " * 5_000)]
        short = options(training__max_epochs=1, training__validations=1)
        code, _, notes = dikkat(*TRAIN, write_table(tmp_path / "long.tsv", rows), "--out", out, *short)
        assert code == 0
        assert "1 of them of 40 tokens or more, of which the first 10 and the last 30 are read" in notes

    def test_options_that_do_not_go_together(
        self, dikkat: Command, run: Path, tmp_path: Path, trained: Path, toy_data: Path, standard_input: object
    ) -> None:
        assert dikkat.fails(2, "classify", run, "--all", "--words", "2").startswith("--words explains one label")
        standard_input("\n")  # type: ignore[operator]
        picture = tmp_path / "words.png"
        assert dikkat.fails(2, "classify", run, "--picture", picture).startswith(
            f"{picture}: a picture shows one text; give one"
        )
        message = dikkat.fails(2, "evaluate", trained, toy_data, "--picture", picture)
        assert message == "--picture draws the confusion matrix of a classifier, but this run is not one"
        message = dikkat.fails(2, "classify", run, "--engine", "torch", "--precision", "int8")
        assert message == "int8 is for the native engine; leave out --precision or --engine torch"
        for precision in ("int8", "float16"):
            message = dikkat.fails(2, "classify", run, "--words", "2", "--engine", "torch", "--precision", precision)
            assert message.startswith("--words with attention needs the torch engine on the processor; leave out")
        assert not picture.exists()

    def test_more_tokens_than_learned_positions(self, dikkat: Command, data: Path, out: Path) -> None:
        trained = options(model__positions="learned", model__max_positions=40)
        message = dikkat.fails(2, *TRAIN, data, "--out", out, *trained)
        assert message == (
            "settings: classifier.max_tokens = 40 and the mark before them need 41 positions, but model.max_positions"
            " = 40; set classifier.max_tokens to 39 or less"
        )

    def test_what_does_not_fit_the_settings_is_named(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, copy := tmp_path / "copy")
        settings = json.loads((copy / "config.json").read_text())
        for name in ("manifest.json", "metrics.jsonl"):
            (copy / name).unlink()
        (copy / "config.json").write_text(json.dumps({**settings, "labels": ["a", "b", "c"]}))
        message = dikkat.fails(65, "classify", copy)
        weights, config = copy / "model.safetensors", copy / "config.json"
        assert message.startswith(f"{weights}: does not fit {config}: parameter output.")
        (copy / "config.json").write_text(json.dumps({**settings, "labels": []}))
        message = dikkat.fails(65, "classify", copy)
        assert message == f"{copy / 'config.json'}: damaged: names no labels; restore the file"
        (copy / "config.json").write_text(json.dumps({**settings, "task": "digits"}))
        assert dikkat.fails(2, "doctor", copy) == f'{copy}: holds a "digits", which the doctor cannot examine'

    def test_an_empty_text_has_no_decisive_word(self, run: Path) -> None:
        with pytest.raises(DataError, match="there is nothing to decide in an empty text"):
            decisive_words(Classifier.load(run), "  ")

    def test_a_translator_does_not_classify(self, dikkat: Command, trained: Path) -> None:
        message = dikkat.fails(2, "classify", trained)
        assert message == f"{trained}: holds a translator, not a classifier; try: echo … | dikkat translate {trained}"

    def test_without_a_validation_nothing_is_calibrated(self, dikkat: Command, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, copy := tmp_path / "copy")
        (copy / "metrics.jsonl").unlink()
        assert dikkat.fails(66, "classify", copy).startswith(f"{copy / 'metrics.jsonl'}: is missing from the run")
        (copy / "card.md").unlink()
        message = dikkat.fails(65, "classify", copy)
        assert message.startswith(f"{copy / 'metrics.jsonl'}: has no row of update ")
