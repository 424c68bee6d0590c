"""Graphs of ONNX of classifiers and language models: what ONNX Runtime makes of them, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.runs import classifier_run, language_model_run
from tests.unit.interop.checkpoints import bert_folder, gpt2_folder
from tests.unit.interop.test_onnx_export import SHAPES, python_of_the_readme

from dikkat.data.corpus import Corpus
from dikkat.interop import text_parity
from dikkat.interop.onnx_export.program import OnnxClassifier, OnnxWriter
from dikkat.interop.onnx_export.writing import export_onnx
from dikkat.interop.text_parity import check_classifier, check_language_model
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator

onnx = pytest.importorskip("onnx", reason="needs onnx, of the extra [test]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra [test]")

ONE_STACK = {
    name: {key: value for key, value in shape.items() if key != "decoder_layers"}
    for name, shape in SHAPES.items()
    if name not in ("firefox", "separate")
}
"""Shapes of blocks that a reader of texts has, too."""
HEADS: dict[str, dict[str, Any]] = {
    "attention": {"pooling": "attention"},
    "mean": {"pooling": "mean"},
    "binary": {"pooling": "first", "objective": "binary", "beginning": 1.0},
    "labels": {"pooling": "max", "objective": "multi_label"},
}
DAILY = {"attention": "window", "binary": "grouped"}
"""Shapes of the daily run by heads; at night each shape meets a head."""
NIGHTLY = [(list(HEADS)[number % len(HEADS)], shape) for number, shape in enumerate(ONE_STACK)]
GREEDY = GenerationOptions(temperature=0.0, max_tokens=9)


def nightly(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.nightly)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier_run(tmp_path_factory.mktemp("classifier") / "run", {"pooling": "attention"})


@pytest.fixture(scope="module")
def exported_classifier(classifier: Path) -> Path:
    export_onnx(classifier, classifier.with_name("out"), 4)
    return classifier.with_name("out")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model_run(tmp_path_factory.mktemp("writer") / "run")


@pytest.fixture(scope="module")
def exported_writer(writer: Path) -> Path:
    export_onnx(writer, writer.with_name("out"), 4)
    return writer.with_name("out")


@pytest.mark.parametrize(("head", "shape"), [*DAILY.items(), *(nightly(*pair) for pair in NIGHTLY)])
def test_a_classifier_of_every_shape_gives_the_same_labels_and_logits(head: str, shape: str, tmp_path: Path) -> None:
    trained = TrainedClassifier.open(classifier_run(tmp_path / "run", HEADS[head], **ONE_STACK[shape]))
    report = export_onnx(trained.run, tmp_path / "out", 12)
    assert report.startswith("12 texts by ONNX Runtime")
    assert ("weights of pooling within" in report) == (head == "attention")
    onnx.checker.check_model(tmp_path / "out" / "onnx" / "model.onnx", full_check=True)
    logits = torch.stack([trained.logits(row) for row in trained.rows(trained.samples(12))])
    assert len(logits.unique(dim=0)) > 1


@pytest.mark.parametrize(
    ("objective", "shape"),
    [
        ("causal", "window"),
        ("prefix", "hard"),
        *(nightly("causal" if number % 2 else "prefix", shape) for number, shape in enumerate(ONE_STACK)),
    ],
)
def test_a_language_model_of_every_shape_writes_the_same_texts(objective: str, shape: str, tmp_path: Path) -> None:
    run_directory = language_model_run(tmp_path / "run", {"objective": objective}, **ONE_STACK[shape])
    assert export_onnx(run_directory, tmp_path / "out", 12).startswith("12 prompts by ONNX Runtime")
    onnx.checker.check_model(tmp_path / "out" / "onnx" / "model.onnx", full_check=True)
    trained = TrainedLanguageModel.open(run_directory)
    written = trained.greedy(trained.tokenizer.encode_batch(trained.prompts(12)))
    assert len(set(map(tuple, written))) > 3


def test_prompts_are_of_the_held_out_text_where_a_run_has_one(tmp_path: Path) -> None:
    trained = TrainedLanguageModel.open(language_model_run(tmp_path / "run", {"context": 40}))
    others = trained.prompts(5)
    assert len(others) == 5
    text = " ".join(f"word {number}" for number in range(90))
    Corpus.build(tmp_path / "run" / "corpus", "validation", [(trained.tokenizer.encode(text), ())])
    prompts = trained.prompts(5)
    assert len(prompts) == 5
    assert all(prompt.strip() in text for prompt in prompts)
    # more than there are: sentences of the phrasebook follow
    assert len(trained.prompts(150)) == 150


@pytest.mark.nightly
def test_two_hundred_texts_are_the_usual(classifier: Path, writer: Path, tmp_path: Path) -> None:
    report = export_onnx(writer, tmp_path / "writer")
    assert report.startswith(f"200 prompts by ONNX Runtime {onnxruntime.__version__}: the same text by greedy search")
    assert export_onnx(classifier, tmp_path / "classifier").startswith("200 texts by ONNX Runtime")


def test_the_readme_of_a_classifier_gives_the_probabilities_of_the_native_engine(
    classifier: Path, exported_classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classify = python_of_the_readme(exported_classifier, monkeypatch)["classify"]
    # white space at the ends, a text that is cut, a mark that is typed, no words
    texts = ["\t a cat \n", "the old man sees a black dog and a small cat near the sea " * 4, "<eos> is text", " "]
    for text, expected in zip(texts, Classifier.load(classifier).classify(texts), strict=True):
        probabilities = classify(text)
        assert [*probabilities] == [*expected.probabilities]
        np.testing.assert_allclose([*probabilities.values()], [*expected.probabilities.values()], atol=1e-6)


def test_pooling_weights_are_those_of_numpy_in_float64(classifier: Path, exported_classifier: Path) -> None:
    """Softmax of the scaled products with the query in the file of the run, over the real positions alone."""
    trained = TrainedClassifier.open(classifier).in_float64()
    rows = [[1, 9, 30, 77], [1, 8]]
    weights = OnnxClassifier(exported_classifier).pooling_weights(rows)
    query = trained.network.pooling.get_parameter("query").detach().numpy()
    for row, own in zip(rows, weights, strict=True):
        ids = torch.tensor([row])
        with torch.no_grad():
            states = trained.network.encode(ids, torch.ones_like(ids, dtype=torch.bool))[0].numpy()
        shares = np.exp(states @ query / np.sqrt(len(query)))
        np.testing.assert_allclose(own, shares / shares.sum(), atol=1e-6)


def test_the_readme_of_a_language_model_writes_as_the_native_engine(
    writer: Path, exported_writer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = python_of_the_readme(exported_writer, monkeypatch)["generate"]
    generator = Generator.load(writer)
    # a byte each, but for the begin of a text
    for prompt in ("The small", "Zä", ""):
        ((expected,),) = generator.generate([prompt], options=GREEDY)
        assert (
            generate(prompt, GREEDY.max_tokens)
            == generator.tokenizer.decode_batch([generator.encode(prompt)])[0] + expected.text
        )


@pytest.mark.nightly
def test_the_readme_of_a_language_model_lower_cases_as_turkish_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = language_model_run(
        tmp_path / "run",
        sections={"data": {"source_language": "tr"}, "tokenizer": {"vocab_size": 400, "lowercase": True}},
    )
    export_onnx(writer, tmp_path / "out", 4)
    generate = python_of_the_readme(tmp_path / "out", monkeypatch)["generate"]
    ((expected,),) = Generator.load(writer).generate(["IŞIK"], options=GREEDY)
    assert generate("IŞIK", GREEDY.max_tokens) == f"ışık{expected.text}"


def test_an_imported_gpt2_keeps_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, imported = gpt2_folder(tmp_path / "source"), tmp_path / "run"
    assert run(["import", str(source), "--out", str(imported)]) == 0
    export_onnx(imported, tmp_path / "out", 4)
    assert (tmp_path / "out" / "tokenizer.json").exists()
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["eos_token"] == "<|endoftext|>"
    assert settings["model_max_length"] == 32
    generate = python_of_the_readme(tmp_path / "out", monkeypatch)["generate"]
    trained = TrainedLanguageModel.open(imported)
    prompt = trained.tokenizer.encode("a cat")
    (written,) = trained.greedy([prompt])
    assert generate("a cat", trained.longest_output) == trained.tokenizer.decode([*prompt, *written])


def test_names_and_settings_are_those_that_transformers_js_looks_for(
    exported_classifier: Path, exported_writer: Path
) -> None:
    settings = json.loads((exported_classifier / "config.json").read_text())
    assert settings["id2label"] == {"0": "no", "1": "perhaps", "2": "yes"}
    assert settings["problem_type"] == "single_label_classification"
    settings = json.loads((exported_writer / "config.json").read_text())
    session = onnxruntime.InferenceSession(exported_writer / "onnx" / "model.onnx")
    caches = {one.name: one.shape for one in session.get_inputs() if one.name.startswith("past")}
    layers, heads, width = (settings[name] for name in ("num_hidden_layers", "num_key_value_heads", "head_dim"))
    parts = [f"{number}.{part}" for number in range(layers) for part in ("key", "value")]
    assert [*caches] == [f"past_key_values.{part}" for part in parts]
    assert all(shape == ["batch_size", heads, "past_sequence_length", width] for shape in caches.values())
    assert [one.name for one in session.get_outputs()] == [*(f"present.{part}" for part in parts), "logits"]


def test_what_computes_something_else_is_refused(
    classifier: Path, exported_classifier: Path, writer: Path, exported_writer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = OnnxClassifier(exported_classifier), OnnxWriter(exported_writer)
    trained, model = TrainedClassifier.open(classifier), TrainedLanguageModel.open(writer)
    with torch.no_grad():
        trained.network.output.bias.add_(torch.tensor([0.0, 0.0, 2e-3]))
    with pytest.raises(DataError, match=r"computes logits that differ by 0\.00"):
        check_classifier(trained, exported_classifier, readers[0], 2)
    with torch.no_grad():
        trained.network.output.bias[int(trained.logits(trained.rows(trained.samples(1))[0]).argmin())] += 99
    with pytest.raises(DataError, match=r"ONNX Runtime [\d.]+ labels '.*' as (no|perhaps|yes), not (no|perhaps|yes);"):
        check_classifier(trained, exported_classifier, readers[0], 2)
    with torch.no_grad():
        model.network.decoder.blocks[0].get_parameter("feed_forward.outer.bias")[3] += 3e-3
    with pytest.raises(DataError, match="computes logits that differ by"):
        check_language_model(model, exported_writer, readers[1], 2)
    model.network.output_weight.data *= -1
    with pytest.raises(DataError, match=r"ONNX Runtime [\d.]+ continues '.*' with '.*', not '"):
        check_language_model(model, exported_writer, readers[1], 2)
    trained = TrainedClassifier.open(classifier)
    monkeypatch.setattr(text_parity, "MAX_POOLING", -1.0)
    monkeypatch.setattr("dikkat.interop.parity.MAX_TIMES", -1.0)
    monkeypatch.setattr(text_parity, "MAX_DIFFERENCE", 1.0)
    with pytest.raises(DataError, match="computes weights of pooling that differ by"):
        check_classifier(trained, exported_classifier, readers[0], 2)


def test_what_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masked = language_model_run(tmp_path / "masked", {"objective": "masked"})
    with pytest.raises(
        UsageError, match=r"trained to fill in hidden tokens \(objective masked\); it cannot continue a text"
    ):
        export_onnx(masked, tmp_path / "new" / "out")
    short = classifier_run(tmp_path / "short", positions="learned", max_positions=2)
    with pytest.raises(UsageError, match=r"no sample text fits into model\.max_positions = 2"):
        export_onnx(short, tmp_path / "new" / "out")
    assert run(["import", str(bert_folder(tmp_path / "bert")), "--out", str(tmp_path / "encoder")]) == 0
    assert run(["export", str(tmp_path / "encoder"), "--to", "onnx", "--out", str(tmp_path / "new" / "out")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "encoder: --to onnx writes translators, classifiers and language models" in error
    assert not (tmp_path / "new").exists()


def test_the_cuts_of_a_run_are_written_and_used(tmp_path: Path) -> None:
    run = classifier_run(tmp_path / "run", {"pooling": "mean", "objective": "multi_label"})
    cuts = {"cut_0": 0.125, "cut_1": 0.25, "cut_2": 0.75}
    RunDirectory.open(run).append_metrics({"step": 1, "micro_f1": 3, "temperature": 0.7, **cuts})
    export_onnx(run, tmp_path / "out", 12)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert settings["cuts"] == [0.125, 0.25, 0.75]
    assert "`cuts` in config.json" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
