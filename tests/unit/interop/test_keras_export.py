"""Models of Keras that are written of runs: what they compute, what they are made of, and refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.interop.test_onnx_export import SHAPES
from tests.unit.interop.trained_runs import random_run, trained_run

from dikkat.interop.keras_export import writing
from dikkat.interop.keras_export.writing import export_keras
from dikkat.interop.parity import check_folder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import DataError, UsageError

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs keras, of the extra [test]")

from dikkat.interop.keras_export.program import KerasTranslator  # noqa: E402
from dikkat.interop.keras_export.translate import Translator  # noqa: E402

SMALL: dict[str, Any] = {"positions": "learned", "max_positions": 24, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("trained") / "run", **SMALL)


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    report = export_keras(trained, trained.with_name("out"), 2)
    assert report.startswith(f"2 sentences by Keras {keras.__version__} on {keras.backend.backend()}: the same text")
    return trained.with_name("out")


@pytest.fixture(scope="module")
def translator(exported: Path) -> Translator:
    return Translator(exported)


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "firefox"])
def test_every_shape_writes_the_same_texts_logits_and_attention(shape: str, tmp_path: Path) -> None:
    opened = TrainedTranslator.open(random_run(tmp_path / "run", **SHAPES[shape]))
    assert export_keras(opened.run, tmp_path / "out", 4).startswith("4 sentences by Keras")
    assert len(set(map(tuple, opened.greedy(opened.samples(4))))) > 1


@pytest.mark.nightly
def test_a_trained_run_writes_two_hundred_texts(tmp_path: Path) -> None:
    report = export_keras(trained_run(tmp_path / "run", norm_placement="post", output_bias=True), tmp_path / "out")
    assert report.startswith(f"200 sentences by Keras {keras.__version__}")


def test_texts_and_weights_are_those_of_the_run(translator: Translator, trained: Path) -> None:
    ours = TrainedTranslator.open(trained)
    texts = [*ours.samples(3), " ", "<eos> is text"]
    results = translator.translate(texts, ours.longest_output)
    written = ours.greedy(texts)
    assert [text for text, _ in results] == [
        ours.tokenizers[-1].decode(row) if text.strip() else "" for text, row in zip(texts, written, strict=True)
    ]
    assert results[3] == ("", None)
    for (_, weights), text, row in zip(results, texts, written, strict=True):
        if text.strip():
            assert weights.shape[:2] == (1, 4)
            assert weights.shape[2] in (len(row), len(row) + 1)
            np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="but the model takes 24: cut it into sentences"):
        translator.translate(["a cat " * 24])


def test_a_row_does_not_depend_on_its_batch(translator: Translator) -> None:
    texts = ["a cat", "the old man sees a black dog"]
    together = translator.translate(texts, 6)
    for text, (written, weights) in zip(texts, together, strict=True):
        ((alone, own),) = translator.translate([text], 6)
        assert written == alone
        np.testing.assert_allclose(weights[:, :, : own.shape[2]], own, atol=1e-5)


def test_a_cache_that_grew_holds_what_it_held(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, _ = translator.greedy([[9, 30, 2]], 7)
    monkeypatch.setattr("dikkat.interop.keras_export.translate.STEPS", 2)
    short, _ = translator.greedy([[9, 30, 2]], 7)
    np.testing.assert_array_equal(usual, short)


def test_the_model_is_of_parts_of_keras_alone(exported: Path) -> None:
    with zipfile.ZipFile(exported / "model.keras") as archive:
        settings = json.loads(archive.read("config.json"))
    modules: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            modules.update([value["module"]] if value.get("module") else [])
            assert not value.get("registered_name") or str(value.get("module")).startswith("keras")
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    walk(settings)
    assert "keras.layers" in modules
    assert {name.split(".")[0] for name in modules} <= {"keras", "builtins"}


@pytest.mark.nightly
def test_it_learns_on_as_the_readme_says(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (exported / "README.md").read_text().split("```python\n")[2].split("```")[0]
    monkeypatch.chdir(exported)
    names: dict[str, Any] = {}
    exec(code.replace("[…, 2]", "[9, 30, 7, 2]"), names)
    ids = {"source_ids": names["source"], "target_ids": names["begun"]}
    losses = names["model"].fit(ids, {"logits": names["target"]}, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_the_program_beside_the_model_needs_nothing_of_dikkat(backend: str, exported: Path, tmp_path: Path) -> None:
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    (tmp_path / "dikkat").mkdir()
    (tmp_path / "dikkat" / "__init__.py").write_text("raise ImportError('blocked')\n")
    texts = ["a cat", "", "the old man sees a black dog"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KERAS_BACKEND": backend}
    command = [sys.executable, str(exported / "translate.py")]
    done = subprocess.run(command, input="\n".join(texts) + "\n", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n") == [*(text for text, _ in Translator(exported).translate(texts)), ""]
    done = subprocess.run(command, input="a cat " * 24, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    line = r"translate\.py: a text has \d+ tokens, but the model takes 24: cut it into sentences"
    assert [one for one in done.stderr.splitlines() if re.fullmatch(line, one)], done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_what_computes_something_else_is_refused(exported: Path, tmp_path: Path) -> None:
    program = KerasTranslator(exported)
    other = TrainedTranslator.open(random_run(tmp_path / "other", **SMALL, activation="gelu"))
    with pytest.raises(DataError, match=r"Keras .* computes logits that differ by"):
        check_folder(other, exported, program, 1)


def test_what_keras_lacks_and_what_is_missing_is_one_line(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    recurrent = random_run(tmp_path / "recurrent", decoder_memory="ssru")
    with pytest.raises(
        UsageError, match=r"Keras does not compute a model with model\.decoder_memory = ssru; train one"
    ):
        export_keras(recurrent, out)
    words = ["export", str(trained), "--to", "keras", "--out", str(out), "--precision", "int8"]
    assert run(words) == 2
    assert "--to keras is always written in float32" in capsys.readouterr().err.splitlines()[-1]

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    with monkeypatch.context() as patched:
        patched.setenv("KERAS_BACKEND", "numpy")
        with pytest.raises(UsageError, match="KERAS_BACKEND=numpy: not installed"):
            export_keras(trained, out)
        patched.setattr(writing, "version", lambda name: "3.9.2")
        with pytest.raises(UsageError, match=r"needs a newer keras than 3\.9\.2: pip install 'dikkat\[keras\]'"):
            export_keras(trained, out)
        patched.setattr(writing, "version", missing)
        with pytest.raises(UsageError, match=r"needs keras: pip install 'dikkat\[keras\]'"):
            export_keras(trained, out)
    assert {path.name for path in tmp_path.iterdir()} == {"recurrent"}
