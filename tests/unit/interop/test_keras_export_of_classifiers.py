"""Models of Keras that are written of classifiers: what they compute, on what backend, and refusals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.runs import classifier_run
from tests.unit.interop.checkpoints import bert_folder
from tests.unit.interop.test_onnx_export_of_texts import HEADS, NIGHTLY, ONE_STACK, nightly

from dikkat.interop.keras_export.writing import export_keras
from dikkat.interop.text_parity import check_classifier
from dikkat.interop.trained_text_model import TrainedClassifier
from dikkat.nn.pooling import MaxPooling
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.classifier import Classifier

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs keras, of the extra [test]")

from dikkat.interop.keras_export.layers import Tables  # noqa: E402
from dikkat.interop.keras_export.network import _pool  # noqa: E402
from dikkat.interop.keras_export.program import KerasClassifier  # noqa: E402

TEXTS = ["\t a cat \n", "the old man sees a black dog and a small cat near the sea " * 4, "<eos> is text", " "]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier_run(tmp_path_factory.mktemp("trained") / "run", {"pooling": "attention"})


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    report = export_keras(trained, trained.with_name("out"), 4)
    assert report.startswith(f"4 texts by Keras {keras.__version__} on {keras.backend.backend()}: the same label")
    assert "weights of pooling within" in report
    return trained.with_name("out")


@pytest.mark.parametrize(("head", "shape"), [("binary", "hard"), *(nightly(*pair) for pair in NIGHTLY)])
def test_every_shape_gives_the_same_labels_and_logits(head: str, shape: str, tmp_path: Path) -> None:
    run_directory = classifier_run(tmp_path / "run", HEADS[head], **ONE_STACK[shape])
    assert export_keras(run_directory, tmp_path / "out", 6).startswith("6 texts by Keras")


@pytest.mark.nightly
def test_two_hundred_texts_are_the_usual(trained: Path, tmp_path: Path) -> None:
    assert export_keras(trained, tmp_path / "out").startswith("200 texts by Keras")


def code_of_the_readme(folder: Path) -> str:
    found = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1].partition('\n\nprint(classify("…"))')[0]


def test_the_readme_gives_the_probabilities_of_the_native_engine(
    trained: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exported)
    names: dict[str, Any] = {}
    exec(code_of_the_readme(exported), names)
    for text, expected in zip(TEXTS, Classifier.load(trained).classify(TEXTS), strict=True):
        probabilities = names["classify"](text)
        assert [*probabilities] == [*expected.probabilities]
        np.testing.assert_allclose([*probabilities.values()], [*expected.probabilities.values()], atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_the_readme_needs_nothing_of_dikkat(backend: str, trained: Path, exported: Path, tmp_path: Path) -> None:
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    (tmp_path / "dikkat").mkdir()
    (tmp_path / "dikkat" / "__init__.py").write_text("raise ImportError('blocked')\n")
    code = f"{code_of_the_readme(exported)}\nprint([classify(text) for text in {TEXTS!r}])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=exported, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = eval(done.stdout.splitlines()[-1])
    for answer, expected in zip(answers, Classifier.load(trained).classify(TEXTS), strict=True):
        np.testing.assert_allclose([*answer.values()], [*expected.probabilities.values()], atol=1e-5)


def test_what_computes_something_else_and_what_is_not_written_is_refused(
    trained: Path, exported: Path, tmp_path: Path
) -> None:
    changed = TrainedClassifier.open(trained)
    with torch.no_grad():
        changed.network.output.bias.add_(torch.tensor([0.0, 0.0, 2e-2]))
    with pytest.raises(DataError, match=r"Keras .* computes logits that differ by 0\.0"):
        check_classifier(changed, exported, KerasClassifier(exported), 2)
    assert run(["import", str(bert_folder(tmp_path / "bert")), "--out", str(tmp_path / "encoder")]) == 0
    with pytest.raises(UsageError, match="--to keras writes translators, classifiers and language models"):
        export_keras(tmp_path / "encoder", tmp_path / "new" / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"bert", "encoder"}


def test_a_pooling_without_layers_and_a_row_of_padding_are_what_they_are() -> None:
    """A row without positions is zero by the formula of the largest number; the mean stands in for no other pooling."""
    x, seen = np.array([[[-3.0], [-1.0]]] * 2, "float32"), np.array([[True, False], [False, False]])
    values = [keras.ops.convert_to_tensor(one) for one in (x, seen)]
    largest, _ = _pool(Tables(), MaxPooling(), *values)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(largest), [[-3.0], [0.0]])
    other: Any = torch.nn.Identity()
    with pytest.raises(TypeError, match="no Keras layers are known for the pooling Identity"):
        _pool(Tables(), other, *values)
