"""Graphs of ONNX that are written of runs: what ONNX Runtime makes of them, and refusals."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import util
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.trained_runs import random_run, trained_run

from dikkat.interop import parity
from dikkat.interop import parity as folder_parity
from dikkat.interop.exported_texts import dotted_lower
from dikkat.interop.onnx_export import writing
from dikkat.interop.onnx_export.program import OnnxTranslator
from dikkat.interop.onnx_export.writing import export_onnx
from dikkat.interop.parity import check_folder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import CannotCreateError, DataError, UsageError

onnx = pytest.importorskip("onnx", reason="needs onnx, of the extra [test]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra [test]")

SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {"positions": "rotary", "num_kv_heads": 2, "activation": "gelu", "norm": "rms"},
    "window": {
        "positions": "relative", "score": "additive", "attention_window": 3, "global_tokens": 1,
        "norm_placement": "post", "activation": "swiglu",
    },
    "firefox": {
        "decoder_memory": "ssru", "positions": "sinusoidal_concatenated", "norm_placement": "post", "output_bias": True,
        "decoder_layers": 1,
    },
    "alibi": {"positions": "alibi", "activation": "gelu_tanh", "head_dim": 6, "embedding_norm": True},
    "bilinear": {
        "positions": "relative_buckets", "score": "bilinear", "activation": "geglu", "inverse_temperature": 0.3,
    },
    "hard": {"positions": "learned", "positions_in_every_layer": True, "selection": "argmax", "attention_bias": False},
    "drawn": {"positions": "sinusoidal_halves", "selection": "gumbel", "activation": "silu", "attention_window": 2},
    "dot": {"score": "dot", "selection": "straight_through", "scale_embeddings": False, "attention_output_bias": False},
    "separate": {"separate": True, "tie_embeddings": False, "encoder_layers": 1, "decoder_layers": 3},
}  # fmt: skip
DAILY = ("window", "firefox")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("trained") / "run")


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    export_onnx(trained, trained.with_name("out"), 4)
    return trained.with_name("out")


@pytest.mark.parametrize(
    "shape", [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in SHAPES]
)
def test_every_shape_writes_the_same_texts_logits_and_attention(shape: str, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(random_run(tmp_path / "run", **SHAPES[shape]))
    report = export_onnx(translator.run, tmp_path / "out", 4)
    assert report.startswith("4 sentences by ONNX Runtime")
    for path in (tmp_path / "out" / "onnx").iterdir():
        onnx.checker.check_model(path, full_check=True)
    assert len(set(map(tuple, translator.greedy(translator.samples(4))))) > 1


def test_after_an_end_mark_only_end_marks_are_written(exported: Path, trained: Path) -> None:
    """So that a program which writes on until all rows of a batch ended adds nothing to the others."""
    model = TrainedTranslator.open(trained)
    logits, _ = OnnxTranslator(exported).logits_and_maps([9, 30], [40, 2, 2, 41])
    assert logits[[2, 3]].argmax(dim=-1).tolist() == [2, 2]
    assert logits[[2, 3]].softmax(dim=-1)[:, 2].tolist() == [1.0, 1.0]
    # elsewhere they are those of the run
    torch.testing.assert_close(logits[[0, 1, 4], 2:], model.logits([9, 30], [40, 2, 2, 41])[[0, 1, 4], 2:])


@pytest.mark.nightly
def test_a_trained_run_writes_two_hundred_texts(tmp_path: Path) -> None:
    report = export_onnx(trained_run(tmp_path / "run"), tmp_path / "out")
    assert report.startswith(f"200 sentences by ONNX Runtime {onnxruntime.__version__}: the same text by greedy search")


def test_cross_attention_is_that_of_numpy_in_float64(exported: Path, trained: Path) -> None:
    """Softmax of the scaled products of queries and keys, from the weights in the file of the run."""
    network = TrainedTranslator.open(trained).in_float64().network
    block: Any = network.decoder.blocks[0]
    ids, tokens = np.array([[9, 30, 77, 2]]), np.array([[1, 40, 41]])
    encoder, decoder = (onnxruntime.InferenceSession(exported / "onnx" / f"{name}.onnx") for name in GRAPHS)
    (memory,) = encoder.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    feeds = {"encoder_hidden_states": memory, "encoder_attention_mask": np.ones_like(ids), "input_ids": tokens}
    (weights,) = decoder.run(["cross_attentions.0"], {**feeds, **empty_cache(decoder, 1)})
    with torch.no_grad():
        x = network.positions(network.target_embedding(torch.from_numpy(tokens)))
        x = block.self_residual(x, lambda y: block.self_attention(y, mask=torch.ones(3, 3, dtype=torch.bool).tril()))
        x = block.cross_residual.norm(x)
    matrix, bias = (parameter.detach().numpy() for parameter in block.cross_attention.in_projection.parameters())
    q = (x.numpy() @ matrix[:32].T + bias[:32]).reshape(3, 4, 8).transpose(1, 0, 2)
    k = (memory.astype(np.float64) @ matrix[32:64].T + bias[32:64]).reshape(4, 4, 8).transpose(1, 2, 0)
    shares = np.exp(q @ k / np.sqrt(8))
    np.testing.assert_allclose(weights[0], shares / shares.sum(axis=-1, keepdims=True), atol=1e-5)


def test_names_and_sizes_are_those_that_transformers_js_looks_for(exported: Path) -> None:
    settings = json.loads((exported / "config.json").read_text())
    assert (settings["model_type"], settings["transformers.js_config"]) == ("marian", {"dtype": "fp32"})
    decoder = onnxruntime.InferenceSession(exported / "onnx" / "decoder_model_merged.onnx")
    parts = [f"{number}.{side}.{part}" for number in range(2) for side in ("decoder", "encoder") for part in KEY_VALUE]
    caches = {one.name: one.shape for one in decoder.get_inputs() if one.name.startswith("past")}
    assert sorted(caches) == sorted(f"past_key_values.{part}" for part in parts)
    assert all([shape[0], shape[1], shape[3]] == ["batch_size", 4, 8] for shape in caches.values())
    outputs = [one.name for one in decoder.get_outputs()]
    assert {"logits", "cross_attentions.0", "cross_attentions.1"} <= set(outputs)
    assert {name for name in outputs if name.startswith("present.")} == {f"present.{part}" for part in parts}
    start = json.loads((exported / "generation_config.json").read_text())
    assert [start[f"{name}_token_id"] for name in ("pad", "bos", "eos", "decoder_start")] == [0, 1, 2, 1]


GRAPHS = ("encoder_model", "decoder_model_merged")
KEY_VALUE = ("key", "value")


def empty_cache(decoder: Any, rows: int) -> dict[str, Any]:
    """A cache of length 0."""
    return {
        one.name: np.zeros((rows, *(size if isinstance(size, int) else 0 for size in one.shape[1:])), np.float32)
        for one in decoder.get_inputs()
        if one.name.startswith("past_key_values.")
    }


def test_a_row_of_padding_alone_gives_numbers(exported: Path) -> None:
    encoder, decoder = (onnxruntime.InferenceSession(exported / "onnx" / f"{name}.onnx") for name in GRAPHS)
    ids, mask = np.array([[9, 30, 2], [0, 0, 0]]), np.array([[1, 1, 1], [0, 0, 0]])
    (memory,) = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
    feeds = {"encoder_hidden_states": memory, "encoder_attention_mask": mask, "input_ids": np.array([[1], [1]])}
    logits, weights = decoder.run(["logits", "cross_attentions.1"], {**feeds, **empty_cache(decoder, 2)})
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(weights[0].sum(axis=-1), 1.0, atol=1e-6)
    assert not weights[1].any()
    assert logits[..., :2].max() < logits[..., 2:].min()


def python_of_the_readme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the Python of the readme defines, read where the folder lies."""
    monkeypatch.chdir(folder.parent)
    found = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1].partition("\n\ntext, weights")[0], names)
    return names


def test_the_python_of_the_readme_translates(exported: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translate = python_of_the_readme(exported, monkeypatch)["translate"]
    translator = TrainedTranslator.open(trained)
    (source,) = translator.samples(1)
    text, weights = translate(source, max_length=60)
    assert text == translator.tokenizers[-1].decode_batch(translator.greedy([source]))[0]
    assert weights.shape[0] == 4
    assert weights.shape[2] == len(translator.tokenizers[0].encode(source)) + 1


def test_an_unknown_word_is_written_as_the_run_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = TrainedTranslator.open(random_run(tmp_path / "run", {"kind": "words"}))
    written = Counter(chain.from_iterable(translator.greedy(translator.samples(12))))
    weights = dict(translator.network.named_parameters())
    with torch.no_grad():
        # <unk> is then more probable than the token that is written most
        weights["output_weight"][3] = 1.5 * weights["output_weight"][written.most_common(1)[0][0]]
    directory = RunDirectory(tmp_path / "run")
    with directory.alone():
        directory.save_weights(weights, {})
    translator = TrainedTranslator.open(tmp_path / "run")
    export_onnx(translator.run, tmp_path / "out", 2)
    texts = translator.samples(12)
    expected = translator.tokenizers[-1].decode_batch(translator.greedy(texts))
    assert any("<unk>" in text for text in expected)
    translate = python_of_the_readme(tmp_path / "out", monkeypatch)["translate"]
    assert [translate(text, max_length=60)[0] for text in texts] == expected


def test_the_python_of_the_readme_lower_cases_as_turkish_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = random_run(tmp_path / "run", {"lowercase": True}) / "config.json"
    content = json.loads(settings.read_text())
    content["data"]["source_language"] = "tr"
    settings.write_text(json.dumps(content))
    (tmp_path / "run" / "manifest.json").unlink(missing_ok=True)
    translator = TrainedTranslator.open(tmp_path / "run")
    export_onnx(translator.run, tmp_path / "out", 2)
    names = python_of_the_readme(tmp_path / "out", monkeypatch)
    # İ, a decomposed İ, and a decomposed Î, which becomes no dotless ı with a circumflex
    texts = ["IŞIK İstanbul'DA", "I\u0307l I\u0302le", "TI I\u0323\u0307"]
    expected = translator.tokenizers[-1].decode_batch(translator.greedy(texts))
    assert [names["translate"](text, max_length=60)[0] for text in texts] == expected
    assert [dotted_lower(text) for text in texts[:2]] == ["ışık istanbul'da", "il \xeele"]
    assert names["translate"](" ") == ("", None)


@pytest.mark.parametrize(
    ("positions", "longest"), [({"positions": "learned", "max_positions": 20}, 20), ({"positions": "rotary"}, 1024)]
)
def test_folder_reads_and_writes_as_many_tokens_as_it_has_positions(
    positions: dict[str, Any], longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = TrainedTranslator.open(random_run(tmp_path / "run", decoder_layers=1, **positions))
    held_out = translator.run / "held_out"
    held_out.mkdir()
    (held_out / "test.source.txt").write_text("the cat sees the dog " * 8 + "\na cat\n")
    samples = translator.samples(2)
    assert len(samples) == 2
    assert "a cat" in samples
    assert any(len(sample) > 100 for sample in samples) == (longest > 100)
    export_onnx(translator.run, tmp_path / "out", 2)
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == longest
    assert f"both lengths up to {longest:,} tokens" in (tmp_path / "out" / "README.md").read_text()
    names = python_of_the_readme(tmp_path / "out", monkeypatch)
    text, source = "", names["source"]
    while len(source.encode(f"{text} cat").ids) <= longest:
        text += " cat"
    _, weights = names["translate"](text, max_length=longest)
    assert weights.shape[2] > 0.9 * longest


def test_learned_positions_that_hold_no_sample_are_one_line(tmp_path: Path) -> None:
    run_directory = random_run(tmp_path / "run", positions="learned", max_positions=2)
    with pytest.raises(UsageError, match=r"no sample sentence fits into model\.max_positions = 2"):
        export_onnx(run_directory, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_a_second_export_another_kind_or_no_run_is_one_line(
    exported: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in exported.rglob("*")}
    with pytest.raises(CannotCreateError, match="is not an empty folder"):
        export_onnx(trained, exported)
    assert {path: path.stat().st_mtime_ns for path in exported.rglob("*")} == before
    assert run(["export", str(tmp_path / "absent"), "--to", "onnx", "--out", str(tmp_path / "new" / "out")]) == 66
    assert "absent" in capsys.readouterr().err.splitlines()[-1]
    words = ["export", str(trained), "--to", "onnx", "--out", str(tmp_path / "out"), "--precision", "int8"]
    assert run(words) == 2
    assert "written in float32" in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_what_computes_something_else_is_refused_and_nothing_is_left(
    trained: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = TrainedTranslator.open(trained)
    checked = check_folder(translator, exported, OnnxTranslator(exported), 2)
    assert checked.largest_attention is not None
    assert 0 < checked.largest_attention <= 1e-5
    assert 0 < checked.largest_difference <= 1e-4
    monkeypatch.setattr(folder_parity, "MAX_ATTENTION", 1e-12)
    monkeypatch.setattr(parity, "MAX_TIMES", 1e-3)
    with pytest.raises(DataError, match="cross-attention that differs by"):
        check_folder(translator, exported, OnnxTranslator(exported), 2)
    with pytest.raises(DataError, match="nothing was written"):
        export_onnx(trained, tmp_path / "new" / "deep" / "out", 2)
    other = TrainedTranslator.open(random_run(tmp_path / "other", activation="gelu"))
    with pytest.raises(DataError, match="computes logits that differ by"):
        check_folder(other, exported, OnnxTranslator(exported), 2)
    assert {path.name for path in tmp_path.iterdir()} == {"other"}


def test_missing_programs_and_too_large_models_are_named(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(writing, "MAX_FILE_SIZE", 1000)
        with pytest.raises(UsageError, match=r"its weights are [\d,]+ bytes, and a file of ONNX holds 1,000"):
            export_onnx(trained, tmp_path / "out")
    find_spec = util.find_spec
    monkeypatch.setattr(writing, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name))
    with pytest.raises(UsageError, match=r"needs onnx and onnxruntime: pip install 'dikkat\[onnx\]'"):
        export_onnx(trained, tmp_path / "out")
    assert not list(tmp_path.iterdir())
