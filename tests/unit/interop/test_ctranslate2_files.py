"""Folders of CTranslate2 as files: damaged or foreign ones are one line, and no run; exports come back whole."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.ctranslate2_folders import (
    Change,
    changed,
    complaint,
    damaged,
    foreign_files,
    refusal,
    small_run,
    written,
)

from dikkat.interop.ctranslate2.agreement import exported_files
from dikkat.interop.ctranslate2.layout import halved, joined
from dikkat.interop.ctranslate2.model_file import ModelFile, model_file_bytes, quantized, read_model_file, restored
from dikkat.interop.importing import read_foreign
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.cli.main import run as run_command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def files(run: Path) -> dict[str, bytes]:
    """What `dikkat export --to ctranslate2` writes of it."""
    return exported_files(TrainedTranslator.open(run), "float32")


@pytest.fixture(scope="module")
def foreign(run: Path) -> dict[str, bytes]:
    return foreign_files(run)


def test_a_run_comes_back_from_an_export_with_its_ids_and_settings(
    run: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    folder = written(tmp_path / "theirs", files)
    assert run_command(["import", str(folder), "--out", str(tmp_path / "again")]) == 0
    first, again = TrainedTranslator.open(run), TrainedTranslator.open(tmp_path / "again")
    assert again.model.model_copy(update={"output_bias": False, "attention_output_bias": None}) == first.model
    for name, tensor in first.weights.items():
        torch.testing.assert_close(again.weights[name], tensor, rtol=0, atol=0)
    assert again.tokenizers[0].entries == first.tokenizers[0].entries
    assert again.length_penalty == first.length_penalty


def test_a_foreign_folder_is_read_with_a_vocabulary_of_lines(foreign: dict[str, bytes], tmp_path: Path) -> None:
    found = read_foreign(written(tmp_path / "theirs", foreign))
    assert found.parameters > 0


def test_a_run_that_is_imported_here_has_the_name_of_its_folder(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "theirs", files)
    (tmp_path / "named").mkdir()
    monkeypatch.chdir(tmp_path / "named")
    assert run_command(["import", str(folder), "--out", "."]) == 0
    assert (tmp_path / "named" / "card.md").read_text().startswith("# named\n")


@pytest.mark.parametrize("kind", ["cut", "flipped"])
def test_two_hundred_damaged_exports_are_refused_in_a_line_each(
    kind: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    generator = random.Random(7)
    folder = written(tmp_path / "theirs", files)
    for _ in range(200):
        name = generator.choice(["model.bin", "model.bin", "config.json", "shared_vocabulary.json", "tokenizer.json"])
        content = damaged(files[name], kind, generator)
        if name == "config.json" and same_settings(content, files[name]):
            continue
        (folder / name).write_bytes(content)
        refusal(folder)
        (folder / name).write_bytes(files[name])


def same_settings(one: bytes, other: bytes) -> bool:
    """A flipped bit may turn a space into another one."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("kind", "count"), [("cut", 200), ("flipped", 30), pytest.param("flipped", 200, marks=pytest.mark.nightly)]
)
def test_damaged_foreign_files_are_refused_in_a_line_or_read_whole(
    kind: str, count: int, foreign: dict[str, bytes], tmp_path: Path
) -> None:
    # without a checksum, a bit of a weight is another weight
    generator, complaints = random.Random(8), []
    folder = written(tmp_path / "theirs", foreign)
    for _ in range(count):
        name = generator.choice(["model.bin", "model.bin", "config.json"])
        (folder / name).write_bytes(damaged(foreign[name], kind, generator))
        complaints.append(complaint(folder))
        (folder / name).write_bytes(foreign[name])
    told = [line for line in complaints if line]
    assert len(told) == count if kind == "cut" else len(told) >= count // 10
    assert all(line.startswith(str(folder)) and line.isprintable() for line in told)


MODELS: dict[str, tuple[Change, str]] = {
    "alibi": (lambda v: v.update({"decoder/alibi": np.asarray(np.int8(1))}), "decoder/alibi = 1 is not supported"),
    "more heads in one stack": (
        lambda v: v.update({"decoder/num_heads": np.asarray(np.int16(4))}),
        "decoder/num_heads = 4 is not supported; only 2 is",
    ),
    "another activation": (
        lambda v: v.update({f"{s}/activation": np.asarray(np.int8(5)) for s in ("encoder", "decoder")}),
        "activation = 5 is not supported",
    ),
    "a scale of outputs": (
        lambda v: v.update({"decoder/scale_outputs": np.asarray(np.float32(2))}),
        "decoder/scale_outputs = 2.0 is not supported",
    ),
    "a weight too many": (
        lambda v: v.update({"encoder/embeddings_1/weight": np.zeros((2, 8), np.float32)}),
        "this model has no weight encoder/embeddings_1/weight",
    ),
    "a weight too few": (
        lambda v: v.pop("decoder/layer_0/attention/linear_1/bias"),
        "the weight decoder/layer_0/attention/linear_1/bias (keys) is missing",
    ),
    "a scale too few": (
        lambda v: v.pop("decoder/layer_0/attention/linear_1/weight_scale"),
        "the weight decoder/layer_0/attention/linear_1/weight is of the type int8, without a scale",
    ),
    "no positions": (
        lambda v: v.pop("decoder/position_encodings/encodings"),
        "the alias encoder/position_encodings/encodings of decoder",
    ),
    "no numbers": (
        lambda v: v.update({"encoder/layer_norm/beta": np.full(8, np.nan, np.float32)}),
        "the weight encoder/layer_norm/beta holds numbers that are not finite",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_computed_is_named(name: str, foreign: dict[str, bytes], tmp_path: Path) -> None:
    change, told = MODELS[name]
    assert told in refusal(changed(foreign, change, tmp_path / "theirs"))


CONFIGS: dict[str, tuple[Change, str]] = {
    "marks of a tokenizer": (
        lambda c: c.update(add_source_eos=False, decoder_start_token="</s>"),
        "add_source_eos = false with decoder_start_token = '</s>' is not supported",
    ),
    "half an end mark": (lambda c: c.update(add_source_eos="no"), "add_source_eos = 'no' is neither true nor false"),
    "a begin mark": (lambda c: c.update(add_source_bos=True), "add_source_bos = True is not supported"),
    "an unknown start": (
        lambda c: c.update(decoder_start_token="<go>"),
        "decoder_start_token = '<go>' must be an entry",
    ),
    "no epsilon": (lambda c: c.update(layer_norm_epsilon="x"), "layer_norm_epsilon must be a number"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_settings_that_are_not_computed_are_named(name: str, foreign: dict[str, bytes], tmp_path: Path) -> None:
    change, told = CONFIGS[name]
    assert told in refusal(changed(foreign, change, tmp_path / "theirs", config=True))


def test_other_versions_and_kinds_are_named(foreign: dict[str, bytes], tmp_path: Path) -> None:
    content = foreign["model.bin"]
    older = struct.pack("<I", 2) + content[4:]
    other = content.replace(b"TransformerSpec", b"WhisperSpec\0\0\0\0", 1)
    assert "version 2 of the format, where versions 3 to 6 are read" in refusal(
        written(tmp_path / "older", foreign | {"model.bin": older})
    )
    revision = content.index(b"\0", 6) + 1
    for number, kind in ((2, "earlier"), (8, "later")):
        changed_file = content[:revision] + struct.pack("<I", number) + content[revision + 4 :]
        assert f"revision {number} of TransformerSpec, where revisions 3 to 7 are read" in refusal(
            written(tmp_path / kind, foreign | {"model.bin": changed_file})
        )
    assert "not a readable CTranslate2 model" in refusal(written(tmp_path / "other", foreign | {"model.bin": other}))


def test_a_folder_without_a_tokenizer_says_which_files_to_add(foreign: dict[str, bytes], tmp_path: Path) -> None:
    files = {name: content for name, content in foreign.items() if name != "sentencepiece.model"}
    assert "put source.spm and target.spm next to model.bin" in refusal(written(tmp_path / "theirs", files))


def test_a_model_file_keeps_every_type(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    numbers = generator.normal(size=(3, 4)).astype(np.float32)
    kinds = {kind: numbers.astype(kind) for kind in ("<f4", "i1", "<i2", "<i4", "<f2")}
    path = tmp_path / "model.bin"
    path.write_bytes(model_file_bytes(ModelFile(kinds | {"one": np.asarray(np.int16(7))}, {"copy": "i1"})))
    again = read_model_file(path)
    assert again.aliases == {"copy": "i1"}
    assert again.variables["one"] == 7
    for kind, array in kinds.items():
        assert again.variables[kind].dtype == np.dtype(kind)
        np.testing.assert_array_equal(again.variables[kind], array)


def test_int8_is_within_half_a_step_of_each_row() -> None:
    numbers = np.random.default_rng(2).normal(size=(5, 7)).astype(np.float32)
    numbers[3] = 0
    name = "encoder/layer_0/ffn/linear_0/weight"
    rounded = quantized({name: numbers})
    assert rounded[name].dtype == np.int8
    step = np.abs(numbers).max(axis=1, keepdims=True) / 127
    assert (np.abs(restored(rounded)[name] - numbers) <= 0.501 * step).all()


def test_keys_and_values_are_cut_and_put_together() -> None:
    stored = {"decoder/layer_0/attention/linear_1/weight": torch.arange(12.0).reshape(6, 2)}
    parts = halved(stored)
    assert [tuple(part.shape) for part in parts.values()] == [(3, 2), (3, 2)]
    (whole,) = joined(parts).values()
    assert torch.equal(whole, stored["decoder/layer_0/attention/linear_1/weight"])


def test_settings_without_a_counterpart_are_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(tmp_path / "run", positions="rotary", attention_window=4)
    command = ["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]
    assert run_command(command) == 2
    line = capsys.readouterr().err.strip().split("\n")[-1]
    assert "model.positions = rotary" in line
    assert "model.attention_window = 4" in line
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_argos_needs_pieces_and_a_file_name(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["export", str(run), "--to", "argos", "--out", str(tmp_path / "out.argosmodel")]) == 2
    assert "tokenizer.kind" in capsys.readouterr().err
    assert run_command(["export", str(run), "--to", "argos", "--out", str(tmp_path / "out.zip")]) == 2
    assert ".argosmodel" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_export_does_not_overwrite(run: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path)]) == 73
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_without_ctranslate2_weights_are_read_back_and_the_command_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.interop.ctranslate2.agreement.find_spec", lambda _: None)
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 0
    assert "every weight was read back and compared" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "out")
    # a writer that goes wrong is found out
    broken = exported_files

    def other(translator: TrainedTranslator, precision: Any, **more: Any) -> dict[str, bytes]:
        weights = translator.weights["encoder.blocks.0.feed_forward.inner.weight"]
        with torch.no_grad():
            weights[0, 0] += 1
            written = broken(translator, precision, **more)
            weights[0, 0] -= 1
        return written

    monkeypatch.setattr("dikkat.interop.ctranslate2.writing.exported_files", other)
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 65
    assert "encoder/layer_0/ffn/linear_0/weight is not written as it is" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_no_vocabulary_or_another_kind_of_model_is_told_apart_from_hugging_face(
    foreign: dict[str, bytes], tmp_path: Path
) -> None:
    files = {name: content for name, content in foreign.items() if "_vocabulary." not in name}
    assert "there is no shared_vocabulary.json, nor source_vocabulary.json" in refusal(
        written(tmp_path / "lost", files)
    )
    decoder = files["model.bin"][:4] + struct.pack("<H", 23) + b"TransformerDecoderSpec\0" + bytes(8)
    told = refusal(written(tmp_path / "decoder", files | {"model.bin": decoder, "vocabulary.json": b"[]"}))
    assert "a model of the kind TransformerDecoderSpec, where TransformerSpec is read" in told


def test_names_of_strangers_break_no_line(foreign: dict[str, bytes], tmp_path: Path) -> None:
    name = "encoder/odd\n\x1b[2Jname/weight"
    changes: dict[str, Change] = {
        "numbers": lambda v: v.update({name: np.full((2, 2), np.nan, np.float32)}),
        "whole": lambda v: v.update({name: np.ones((2, 2), np.int8)}),
        "setting": lambda v: v.update({name: np.asarray(np.int8(1))}),
    }
    for kind, change in changes.items():
        # it is printable, which the helper looks at
        assert "odd\\n\\x1b" in refusal(changed(foreign, change, tmp_path / kind))


def test_an_entry_that_is_there_twice_behind_the_mark_of_what_no_text_holds_is_refused(
    foreign: dict[str, bytes], tmp_path: Path
) -> None:
    lines = foreign["shared_vocabulary.txt"].decode().split("\n")
    lines[100:102] = ["<odd>", "\uffff<odd>"]
    told = refusal(written(tmp_path / "theirs", foreign | {"shared_vocabulary.txt": "\n".join(lines).encode()}))
    assert told == "sentencepiece.model: the vocabulary next to it has <odd> twice, once after a mark of dikkat's own"
