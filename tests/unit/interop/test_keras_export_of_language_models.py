"""Models of Keras that are written of language models: what they write, on what backend, and refusals."""

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
from tests.runtime.runs import language_model_run
from tests.unit.interop.checkpoints import gpt2_folder
from tests.unit.interop.test_onnx_export_of_texts import ONE_STACK

from dikkat.interop.keras_export.writing import export_keras
from dikkat.interop.text_parity import check_language_model
from dikkat.interop.trained_text_model import TrainedLanguageModel
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.generator import Generator as NativeGenerator

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs keras, of the extra [test]")

from dikkat.interop.keras_export.generate import Generator  # noqa: E402
from dikkat.interop.keras_export.program import KerasWriter  # noqa: E402

SMALL: dict[str, Any] = {"decoder_layers": 1, "positions": "rotary", "num_kv_heads": 2}
PROMPTS = ["The small", "Zä", "", "Where are my keys? A dog", "<eos> is"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model_run(tmp_path_factory.mktemp("trained") / "run", **SMALL)


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    report = export_keras(trained, trained.with_name("out"), 4)
    assert report.startswith(f"4 prompts by Keras {keras.__version__} on {keras.backend.backend()}: the same text")
    return trained.with_name("out")


@pytest.fixture(scope="module")
def generator(exported: Path) -> Generator:
    return Generator(exported)


@pytest.mark.nightly
@pytest.mark.parametrize("objective", ["causal", "prefix"])
@pytest.mark.parametrize("shape", ONE_STACK)
def test_every_shape_writes_the_same_texts_and_logits(objective: str, shape: str, tmp_path: Path) -> None:
    run_directory = language_model_run(tmp_path / "run", {"objective": objective}, **ONE_STACK[shape])
    assert export_keras(run_directory, tmp_path / "out", 4).startswith("4 prompts by Keras")


@pytest.mark.nightly
def test_two_hundred_prompts_are_the_usual(trained: Path, tmp_path: Path) -> None:
    assert export_keras(trained, tmp_path / "out").startswith("200 prompts by Keras")


def test_texts_are_those_of_the_native_engine(generator: Generator, trained: Path) -> None:
    native = NativeGenerator.load(trained)
    options = GenerationOptions(temperature=0.0, max_tokens=9)
    answers = (native.generate([prompt], options=options) for prompt in PROMPTS)
    assert generator.generate(PROMPTS, 9) == [
        native.tokenizer.decode_batch([native.encode(prompt)])[0] + answer.text
        for prompt, ((answer,),) in zip(PROMPTS, answers, strict=True)
    ]
    assert generator.generate(["A dog"], 0) == ["A dog"]


@pytest.mark.nightly
def test_rows_depend_on_no_other_and_end_where_the_model_does(generator: Generator, trained: Path) -> None:
    """A batch of unlike lengths is what each row is alone, and the last token is read at the last position."""
    model = TrainedLanguageModel.open(trained)
    rows = [[9], [30, 7, 12], [5] * 23, [8] * 24]
    written = generator.greedy(rows, 99)
    assert [generator.greedy([row], 99) for row in rows] == [[ids] for ids in written]
    assert all(len(row) + len(ids) == 25 for row, ids in zip(rows, written, strict=True))
    for row, ids in zip(rows, written, strict=True):
        best = model.logits(row, ids[:-1])[len(row) - 1 :].clone()
        best[:, list(model.special_tokens.never_written)] = -torch.inf
        assert best.argmax(dim=-1).tolist() == ids
    with pytest.raises(ValueError, match="a prompt has 25 tokens, but the model takes 1 to 24"):
        generator.greedy([[9], [9] * 25])


@pytest.mark.nightly
def test_a_cache_that_grew_holds_what_it_held(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = generator.greedy([[9, 30], [7]], 20)
    monkeypatch.setattr("dikkat.interop.keras_export.generate.STEPS", 2)
    assert generator.greedy([[9, 30], [7]], 20) == usual


@pytest.mark.nightly
def test_a_prompt_is_lower_cased_as_turkish_does(tmp_path: Path) -> None:
    sections = {"data": {"source_language": "tr"}, "tokenizer": {"vocab_size": 400, "lowercase": True}}
    written = language_model_run(tmp_path / "run", sections=sections, **SMALL)
    export_keras(written, tmp_path / "out", 2)
    ours = NativeGenerator.load(written).tokenizer
    (text,) = Generator(tmp_path / "out").generate(["IŞIK"], 4)
    assert text.startswith(ours.decode_batch([ours.encode("ışık")])[0])


@pytest.mark.nightly
def test_an_imported_gpt2_keeps_its_tokenizer(tmp_path: Path) -> None:
    source, imported = gpt2_folder(tmp_path / "source"), tmp_path / "run"
    assert run(["import", str(source), "--out", str(imported)]) == 0
    export_keras(imported, tmp_path / "out", 2)
    trained = TrainedLanguageModel.open(imported)
    prompt = trained.tokenizer.encode("a cat")
    (written,) = trained.greedy([prompt])
    expected = trained.tokenizer.decode([*prompt, *written])
    assert Generator(tmp_path / "out").generate(["a cat"], trained.longest_output) == [expected]


@pytest.mark.nightly
@pytest.mark.parametrize("objective", ["causal", "prefix"])
def test_it_learns_on_as_the_readme_says(objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    export_keras(language_model_run(tmp_path / "run", {"objective": objective}), out, 2)
    code = (out / "README.md").read_text().split("```python\n")[2].split("```")[0]
    monkeypatch.chdir(out)
    names: dict[str, Any] = {}
    exec(code.replace("ids = np.array([[…]])", "ids = np.array([[9, 30, 7, 12]])").replace("[[…]]", "[[2]]"), names)
    ids = {"input_ids": names["ids"][:, :-1]}
    if objective == "prefix":
        ids["prefix_lengths"] = names["lengths"]
        np.testing.assert_array_equal(names["labels"], [[-1, 7, 12]])
    losses = names["model"].fit(ids, {"logits": names["labels"]}, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_the_program_beside_the_model_needs_nothing_of_dikkat(backend: str, exported: Path, tmp_path: Path) -> None:
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    (tmp_path / "dikkat").mkdir()
    (tmp_path / "dikkat" / "__init__.py").write_text("raise ImportError('blocked')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KERAS_BACKEND": backend}
    for prompt, more in (("A dog", ["A dog"]), ("A dog", [])):
        command = [sys.executable, str(exported / "generate.py"), *more]
        done = subprocess.run(command, input=f"{prompt}\n", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout == Generator(exported).generate([prompt])[0] + "\n"
    command = [sys.executable, str(exported / "generate.py"), "a cat " * 24]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    line = r"generate\.py: a prompt has \d+ tokens, but the model takes 1 to 24"
    assert [one for one in done.stderr.splitlines() if re.fullmatch(line, one)], done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_what_computes_something_else_and_what_cannot_write_on_is_refused(
    trained: Path, exported: Path, tmp_path: Path
) -> None:
    changed = TrainedLanguageModel.open(trained)
    with torch.no_grad():
        changed.network.decoder.blocks[0].get_parameter("feed_forward.outer.bias")[3] += 3e-3
    with pytest.raises(DataError, match=r"Keras .* computes logits that differ by"):
        check_language_model(changed, exported, KerasWriter(exported), 2)
    with torch.no_grad():
        changed.network.decoder.blocks[0].get_parameter("feed_forward.outer.bias")[5] += 99
    with pytest.raises(DataError, match=r"Keras .* continues '.*' with '.*', not '"):
        check_language_model(changed, exported, KerasWriter(exported), 2)
    masked = language_model_run(tmp_path / "masked", {"objective": "masked"})
    with pytest.raises(
        UsageError, match=r"trained to fill in hidden tokens \(objective masked\); it cannot continue a text"
    ):
        export_keras(masked, tmp_path / "new" / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"masked"}
