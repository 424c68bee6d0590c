"""Model files and what is made of them: bytes as the native engine has them, sizes, and what is refused."""

from __future__ import annotations

import base64
import ctypes
import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser_engine import in_node
from tests.runtime.runs import SENTENCES, classifier_run, language_model_run, translator_run
from tests.unit.interop.translators import sentencepiece_model

from dikkat.explain.explorer.document import LANGUAGES
from dikkat.explain.lesson import read_lesson
from dikkat.interop.piece_vocabulary import piece_tokenizer
from dikkat.interop.sentencepiece_file import read_sentencepiece
from dikkat.run_directory.tensor_files import FINE_STEPS, quantize_rows
from dikkat.web.core.__main__ import build
from dikkat.web.model_file import grouped_panels
from dikkat.web.module import MODEL_NAME, core_bytes, write_module
from dikkat.web.opening import example_sentences, open_for_web
from dikkat.web.page import lesson_names, lesson_path, live_page, seven_bit_text
from dikkat_runtime.cli.signals import Interrupted
from dikkat_runtime.engine.precision import PrecisionRecord
from dikkat_runtime.engine.products import linear, table_rows
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import CannotCreateError, UsageError
from dikkat_runtime.native.library import Linear
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.special_tokens import SPECIAL_TOKENS


def matrix(outputs: int, inputs: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    drawn = np.random.default_rng(3).normal(size=(outputs, inputs)).astype(np.float32)
    drawn[1] = 0
    # halves of a step, which are rounded to the even one
    drawn[2] = np.resize(np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5], np.float32), inputs)
    return drawn


def unpacked(layer: Linear) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bytes and scales of a layer out of the panels (outputs / 64, inputs / 4, 64, 4) of the C kernels."""
    panels, quads = -(-layer.outputs // 64), -(-layer.inputs // 16) * 4
    size = panels * quads * 256
    packed = np.ctypeslib.as_array(ctypes.cast(layer.packed_weight, ctypes.POINTER(ctypes.c_int8)), (size,))
    rows = packed.reshape(panels, quads, 64, 4).transpose(0, 2, 1, 3).reshape(panels * 64, quads * 4)
    scale = np.ctypeslib.as_array(ctypes.cast(layer.packed_scale, ctypes.POINTER(ctypes.c_float)), (panels * 64,))
    return rows[: layer.outputs, : layer.inputs], scale[: layer.outputs]


@pytest.mark.parametrize("shape", [(70, 48), (5, 33)])
def test_rows_are_quantized_to_the_bytes_of_the_c_kernels(shape: tuple[int, int]) -> None:
    weight = matrix(*shape)
    bias = np.zeros(shape[0], np.float32)
    weights = Weights({"a.weight": weight, "a.bias": bias}, "file", in_bytes=True, threads=1)
    steps, scale = unpacked(weights.linear("a", *shape))
    found = quantize_rows(weight)
    np.testing.assert_array_equal(found.steps, steps)
    np.testing.assert_array_equal(found.scale, scale)
    embedded = (found.steps + found.fine / FINE_STEPS) * found.scale[:, None].astype(np.float64)
    assert (np.abs(embedded - weight) <= found.scale[:, None] * (0.5 / FINE_STEPS + 1e-5)).all()


LAYER = """
const { shape, values, scale, bias, x } = input;
const weight = scale ? Int8Array.from(values) : Float32Array.from(values);
const tensor = { shape, values: weight, scale: scale && Float32Array.from(scale) };
const layer = new engine.Linear(tensor, bias && Float32Array.from(bias));
const rows = x.length / shape[1];
return [core, engine.SCALAR].map((products) => Array.from(products.linear(layer, Float32Array.from(x), rows)));
"""


@pytest.mark.parametrize("shape", [(70, 48), (5, 33)])
@pytest.mark.parametrize("in_bytes", [False, True])
def test_the_core_and_javascript_compute_the_layer_that_numpy_computes(
    tmp_path: Path, shape: tuple[int, int], in_bytes: bool
) -> None:
    weight, generator = matrix(*shape), np.random.default_rng(4)
    x, bias = (generator.normal(size=size).astype(np.float32) for size in ((29, shape[1]), (shape[0],)))
    given: dict[str, Any] = {"shape": shape, "x": x.ravel().tolist(), "bias": bias.tolist(), "scale": None}
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    given["values"] = weight.ravel().tolist()
    if in_bytes:
        rows, activations = quantize_rows(weight), quantize_rows(x)
        given |= {"values": rows.steps.ravel().tolist(), "scale": rows.scale.tolist()}
        sums = activations.steps.astype(np.int64) @ rows.steps.T.astype(np.int64)
        expected = sums * np.outer(activations.scale, rows.scale) + bias
    for found in in_node(tmp_path, LAYER, given):
        tolerance = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(np.reshape(found, expected.shape), expected, atol=tolerance)


def bf16(x: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Rounded to the nearest number of bfloat16, halves to the even one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def rounded_weights(own: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Round a group of each output: from its least with four bits, around its mean and to a sum of 0 with eight."""
    if bits == 4:
        least = bf16(own.min(axis=1))[:, None]
        scale = bf16((own.max(axis=1) - own.min(axis=1)) / np.float32(15))[:, None]
        q = np.rint((own - least) / np.where(scale > 0, scale, 1)).clip(0, 15)
        return q.astype(np.float64) * scale + least
    mean = own.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    scale = bf16(np.abs(own - mean).max(axis=1, keepdims=True) / np.float32(126))
    exact = (own - mean) / np.where(scale > 0, scale, 1)
    q = np.rint(exact)
    for row, rest in zip(q, exact - q, strict=True):
        excess = int(row.sum())
        row[np.argsort(rest * np.sign(excess))[: abs(excess)]] -= np.sign(excess)
    assert not q.sum(axis=1).any()
    return q.astype(np.float64) * scale + bf16(mean)


GROUPED = """
const { shape, bits, bias, x } = input;
const tensor = { shape, bits, values: Uint8Array.from(input.packed), scale: null, fine: null };
const layer = () => new engine.Linear({ ...tensor }, bias && Float32Array.from(bias));
const rows = x.length / shape[1];
const products = [core, engine.SCALAR].map((each) => Array.from(each.linear(layer(), Float32Array.from(x), rows)));
const embedded = Array.from({ length: shape[0] }, (_, id) => {
  const row = new Float32Array(shape[1]);
  engine.Stack.prototype.readEmbedding.call({ embedding: tensor }, row, id);
  return Array.from(row);
});
return { products, embedded };
"""


@pytest.mark.parametrize("shape", [(70, 64), (5, 33), (16, 32)])
@pytest.mark.parametrize("bits", [8, 4])
def test_groups_are_multiplied_as_numpy_multiplies_them(tmp_path: Path, shape: tuple[int, int], bits: int) -> None:
    generator = np.random.default_rng(6)
    weight, x, bias = (generator.normal(size=size).astype(np.float32) for size in (shape, (3, shape[1]), shape[:1]))
    weight[1] = 0
    packed = grouped_panels(weight, bits)
    given = {"shape": shape, "bits": bits, "x": x.ravel().tolist(), "bias": bias.tolist()}
    found = in_node(tmp_path, GROUPED, {**given, "packed": list(packed.tobytes())})
    expected, whole = np.tile(bias.astype(np.float64), (3, 1)), np.zeros(shape)
    for first in range(0, shape[1], 32):
        own, entries = weight[:, first : first + 32], x[:, first : first + 32]
        whole[:, first : first + 32] = rounded_weights(own, bits)
        least = entries.min(axis=1, keepdims=True) if bits == 8 else np.float32(0)
        step = (entries.max(axis=1, keepdims=True) - least) / np.float32(255)
        if bits == 4:
            step = np.abs(entries).max(axis=1, keepdims=True) / np.float32(127)
        rounded = np.rint((entries - least) / np.where(step > 0, step, 1)).astype(np.float64) * step + least
        expected += rounded @ whole[:, first : first + 32].T
    np.testing.assert_allclose(found["embedded"], whole, atol=1e-6)
    weights = Weights({}, "", in_bytes=False, threads=1)
    native = weights.grouped(weight, bias, bits)
    np.testing.assert_array_equal(found["embedded"], table_rows(native, np.arange(shape[0])))
    for product in found["products"]:
        np.testing.assert_allclose(np.reshape(product, expected.shape), expected, atol=2e-5)
        np.testing.assert_array_equal(np.reshape(product, expected.shape).astype(np.float32), linear(native, x, 1))


def test_auto_is_int8_unless_training_has_measured_that_it_loses(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run")
    assert open_for_web(run).precision == "int8"
    # two texts say no more than none, unless they lose
    for int8, count, precision in (
        (49.0, 100, "float32"),
        (49.95, 100, "int8"),
        (49.0, 2, "float32"),
        (50.0, 2, "int8"),
    ):
        record = PrecisionRecord("chrf", 50.0, int8, count, read_checksum(run / "model.safetensors"))
        (run / "precision.json").write_text(record.json(), encoding="utf-8")
        assert open_for_web(run).precision == precision
        assert open_for_web(run, "int8").precision == "int8"


@pytest.mark.parametrize(
    ("model", "reason"),
    [({"positions": "rotary"}, "model.positions = rotary"), ({"score": "additive"}, "model.score = additive")],
)
def test_a_part_that_the_engine_lacks_is_named(tmp_path: Path, model: dict[str, Any], reason: str) -> None:
    run = translator_run(tmp_path / "run", **model)
    with pytest.raises(UsageError, match="the browser engine lacks a part of this model: .*" + reason):
        open_for_web(run)


def test_a_vocabulary_that_the_engine_lacks_is_named(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run")
    (tmp_path / "source.spm").write_bytes(sentencepiece_model(SENTENCES * 3, size=50))
    pieces = read_sentencepiece(tmp_path / "source.spm")
    entries = [*SPECIAL_TOKENS, *(piece.text for piece in pieces.pieces)]
    piece_tokenizer(pieces, entries).save(run / "tokenizer.json")
    with pytest.raises(UsageError, match=r"which has the parts Metaspace, Precompiled, Unigram$"):
        open_for_web(run)


def test_four_bits_are_for_language_models(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="in a page int4 is for language models; take int8"):
        open_for_web(translator_run(tmp_path / "run"), "int4")


def test_a_masked_language_model_writes_nothing(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run")
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config["language_model"]["objective"] = "masked"
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (run / "manifest.json").unlink()
    with pytest.raises(UsageError, match="fill in hidden tokens"):
        open_for_web(run)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_makes_no_request_and_holds_hostile_examples_as_text(tmp_path: Path, language: str) -> None:
    model = open_for_web(classifier_run(tmp_path / "run"))
    html = live_page(model, language, ["</script><script>alert(1)</script>", "{{MODEL}}"])
    assert f'<html lang="{language}">' in html
    assert "alert(1)</script>" not in html
    policy = html.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == 3
    assert "unsafe-inline" not in policy
    assert "'unsafe-eval'" not in policy
    assert html.count("<script") == 5
    assert base64.b64encode(core_bytes()).decode() in html


@pytest.mark.parametrize("name", lesson_names())
def test_every_lesson_is_told_in_both_languages_and_looks_at_words_that_there_are(name: str) -> None:
    english, turkish = (read_lesson(lesson_path(name).with_suffix(suffix)) for suffix in (".md", ".tr.md"))
    assert (english.language, turkish.language, english.page) == ("en", "tr", turkish.page)
    assert [step.settings for step in english.steps] == [step.settings for step in turkish.steps]
    for step, other in zip(english.steps, turkish.steps, strict=True):
        assert step.heading != other.heading
        assert (step.question is None) == (other.question is None)
        if step.question and other.question:
            assert step.question.answer == other.question.answer
        words = [word.strip(".,") for word in step.settings["text"].split()]
        named = {step.settings[key] for key in ("look", "at") if key in step.settings}
        assert not words or {*step.settings.get("hide", ()), *named} <= set(words)


def test_a_lesson_is_a_name_or_a_file() -> None:
    assert lesson_names() == ["000", "001", "002", "003", "004", "005"]
    assert lesson_path("my/own.md") == Path("my/own.md")
    with pytest.raises(UsageError, match=r'no lesson "\.\./003"; known: 000, 001, 002, 003, 004, 005, or a file'):
        lesson_path("../003")


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    model = open_for_web(classifier_run(tmp_path / "run"))
    with pytest.raises(UsageError, match='en or tr, not "de"'):
        live_page(model, "de")


def test_examples_are_what_the_run_holds_out(tmp_path: Path) -> None:
    assert example_sentences(tmp_path, 3) == []
    (tmp_path / "held_out").mkdir()
    lines = ["one", "one", "", "x" * 101, "two", "three", "four", "five", "six"]
    (tmp_path / "held_out" / "test.source.txt").write_text("\n".join(lines), encoding="utf-8")
    assert example_sentences(tmp_path, 3) == ["one", "three", "five"]


def test_seven_bits_a_character_are_read_again_byte_by_byte(tmp_path: Path) -> None:
    drawn = np.random.default_rng(5).integers(0, 256, 5000, np.uint8).tobytes()
    contents = [b"", b"<", b"\r\n\0", bytes(range(256)), *(drawn[:size] for size in range(4993, 5001))]
    texts = [seven_bit_text(content) for content in contents]
    for content, text in zip(contents, texts, strict=True):
        assert len(text) == -(-8 * len(content) // 7)
        assert not set("\0\r<").intersection(text)
        bits = "".join(f"{ord(character) & 127:07b}" for character in text)
        assert bytes(int(bits[at : at + 8], 2) for at in range(0, 8 * len(content), 8)) == content
    decoded = in_node(tmp_path, "return input.map((text) => Array.from(engine.bytesOfSevenBits(text)));", texts)
    assert [bytes(numbers) for numbers in decoded] == contents


def test_a_module_goes_into_an_empty_folder_alone(tmp_path: Path) -> None:
    model = open_for_web(translator_run(tmp_path / "run"))
    folder = tmp_path / "module"
    write_module(model, folder)
    assert {path.name for path in folder.iterdir()} == {
        "dikkat.js", "dikkat.d.ts", "package.json", "README.md", MODEL_NAME,
    }  # fmt: skip
    code = (folder / "README.md").read_text(encoding="utf-8").split("```js\n")[1].split("```")[0]
    (folder / "try.mjs").write_text(code.replace("…", "The small cat"), encoding="utf-8")
    done = subprocess.run(["node", str(folder / "try.mjs")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    with pytest.raises(CannotCreateError, match="is not an empty folder"):
        write_module(model, folder)


@pytest.mark.parametrize("exists", [False, True])
def test_a_module_that_is_stopped_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    model, folder = open_for_web(classifier_run(tmp_path / "run")), tmp_path / "module"
    if exists:
        folder.mkdir()

    def write_until_the_model(path: Path, content: bytes) -> None:
        if path.name == MODEL_NAME:
            raise Interrupted(signal.SIGINT)
        path.write_bytes(content)

    monkeypatch.setattr("dikkat.web.module.write_atomically", write_until_the_model)
    with pytest.raises(Interrupted):
        write_module(model, folder)
    assert folder.exists() == exists
    assert not exists or list(folder.iterdir()) == []


@pytest.mark.nightly
def test_the_core_is_what_the_c_sources_compile_to(tmp_path: Path) -> None:
    """After a change of the C sources: `pip install dikkat[wasm]`, then `python -m dikkat.web.core`."""
    if find_spec("ziglang") is None:
        pytest.skip(f"needs the compiler: {sys.executable} -m pip install ziglang==0.13.0")
    build(tmp_path / "core.wasm")
    assert (tmp_path / "core.wasm").read_bytes() == core_bytes()
