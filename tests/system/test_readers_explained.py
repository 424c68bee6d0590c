"""`dikkat heads` on a classifier and a language model, which have self-attention alone."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from tests.system.test_classifier import TRAIN, options, reviews, write_table
from tests.system.toy import TINY, Command, kept_signals
from tests.unit.explain.report.inspection import Seen

from dikkat.tasks.inspection.head_analysis import examine_heads
from dikkat_runtime.cli.main import run as run_command

LM = {
    **{name: TINY[name] for name in ("model.model_dim", "model.num_heads", "model.feed_forward_dim")},
    "model.decoder_layers": 2,
    "tokenizer.kind": "characters",
    "language_model.context": 24,
    "training.max_updates": 60,
    "training.validations": 2,
    "training.tokens_per_batch": 512,
}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    data = write_table(folder / "train.tsv", reviews(300))
    with kept_signals():
        assert run_command([*TRAIN, str(data), "--out", str(folder / "run"), *options(training__max_epochs=6)]) == 0
    return folder / "run"


@pytest.fixture(scope="module", params=["causal", "masked"])
def language_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    (folder / "text.txt").write_text("the cat sees the dog. a bird hears the old king.\n" * 60)
    asked = {**LM, "language_model.objective": request.param}
    settings = [word for name, value in asked.items() for word in ("--set", f"{name}={value}")]
    with kept_signals():
        assert run_command(["train", "lm", str(folder / "text.txt"), "--out", str(folder / "run"), *settings]) == 0
    return folder / "run"


def test_heads_of_a_classifier(dikkat: Command, classifier: Path, tmp_path: Path) -> None:
    data = write_table(tmp_path / "test.tsv", reviews(40, seed=77))
    code, output, _ = dikkat("heads", classifier, data, "--sentences", "10", "--prune", "2", "--json")
    result = json.loads(output)
    assert (code, result["sentences"], result["other_sentences"]) == (0, 10, 10)
    assert result["alignment_head"] is None
    assert {(item["stack"], item["kind"]) for item in result["heads"]} == {("encoder", "self")}
    assert all({"loss_lost", "accuracy_lost"} <= item.keys() for item in result["heads"])
    assert max(item["loss_lost"] for item in result["heads"]) > 0.0
    assert [len(item["off"]) for item in result["pruned"]] == [1, 2]
    code, output, _ = dikkat("heads", classifier, "--sentences", "5")
    lines = output.split("\n")
    assert lines[0].startswith(f"{classifier}: 5 texts; all heads on: loss ")
    assert ", accuracy " in lines[0]
    assert lines[2].split()[-4:] == ["loss", "lost", "accuracy", "lost"]
    assert len(lines[3:-1]) == 2


def test_the_loss_with_all_heads_is_that_of_evaluation(dikkat: Command, classifier: Path, tmp_path: Path) -> None:
    data = write_table(tmp_path / "test.tsv", reviews(30, seed=77))
    result = examine_heads(classifier, [str(data)], sentences=30)
    assert f"accuracy {result.whole.score:.2f} %" in dikkat("evaluate", classifier, data)[1]


def test_heads_of_a_language_model(dikkat: Command, language_model: Path, tmp_path: Path) -> None:
    text = tmp_path / "more.txt"
    text.write_text("a dog hears the bird.\n" * 20)
    for data in ((), (text,)):
        code, output, _ = dikkat("heads", language_model, *data, "--sentences", "6", "--json")
        result = json.loads(output)
        assert code == 0
        assert {(item["stack"], item["layer"], item["head"]) for item in result["heads"]} == {
            ("decoder", layer, head) for layer in (1, 2) for head in (1, 2)
        }
        assert all(0.0 <= item["entropy_share"] <= 1.0 + 1e-9 for item in result["heads"])
        assert all(math.isfinite(item["loss_lost"]) and "score_lost" not in item for item in result["heads"])
    code, output, _ = dikkat("heads", language_model, "--sentences", "6", "--prune", "1", "--language", "tr")
    assert code == 0
    assert f"{language_model}: 6 pencere; " in output
    assert "1 kapalı" in output


def test_what_is_for_a_translator_is_refused(dikkat: Command, classifier: Path, tmp_path: Path) -> None:
    message = dikkat.fails(2, "heads", classifier, "--gold", tmp_path / "gold")
    assert message == (f"--gold is for the pairs of a translator, but {classifier} holds another kind; leave it out")
    assert (
        dikkat.fails(2, "heads", classifier, "--prune", "9") == "--prune 9: this model has only 2 heads to switch off"
    )


class TestReport:
    @pytest.mark.parametrize("language", ["en", "tr"])
    def test_a_classifier_becomes_one_file(
        self, dikkat: Command, classifier: Path, tmp_path: Path, language: str
    ) -> None:
        out = tmp_path / "report.html"
        assert dikkat("report", classifier, "--out", out, "--language", language) == (
            0,
            "",
            f"wrote {out}: open it in a browser\n",
        )
        result = Seen()
        result.feed(out.read_text(encoding="utf-8"))
        wanted = {
            "en": ("Classifier: neg, pos", "training texts of neg", "Worst mistakes", "accuracy, %"),
            "tr": ("Sınıflandırıcı: neg, pos", "eğitim metni: neg", "En kötü yanlışlar", "doğruluk, %"),
        }[language]
        assert all(text in result.text for text in wanted), result.text
        # two charts of training, one of lengths, and maps
        assert len(result.named("svg")) >= 4

    def test_a_language_model_becomes_one_file(self, dikkat: Command, language_model: Path, tmp_path: Path) -> None:
        out = tmp_path / "report.html"
        assert dikkat("report", language_model, "--out", out)[0] == 0
        result = Seen()
        result.feed(out.read_text(encoding="utf-8"))
        assert "Language model (" in result.text
        assert "perplexity a token" in result.text
        assert "held-out runs of 16 tokens also occur in training" in result.text
        assert "passage" in result.text

    def test_mistakes_and_unfinished_runs_are_told(self, dikkat: Command, classifier: Path, tmp_path: Path) -> None:
        copy = tmp_path / "a run"
        shutil.copytree(classifier, copy)
        labels = copy / "held_out" / "validation.target.txt"
        turned = ["neg" if label == "pos" else "pos" for label in labels.read_text().split()]
        labels.write_text("".join(f"{label}\n" for label in turned))
        (copy / "manifest.json").unlink()
        out = tmp_path / "report.html"
        assert dikkat("report", copy, "--out", out)[0] == 0
        result = Seen()
        result.feed(out.read_text(encoding="utf-8"))
        text = (copy / "held_out" / "validation.source.txt").read_text().split("\n")[0]
        assert text in result.text
        (copy / "card.md").unlink()
        message = dikkat.fails(66, "report", copy)
        assert message.endswith(f"finish it with: dikkat train classifier --out '{copy}' --resume")
