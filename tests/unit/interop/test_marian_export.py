"""Files of Marian that are written of runs: what its formulas compute with them, what is read of them, and refusals."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.marian_files import (
    POST_NORM,
    RECURRENT,
    SEPARATE,
    UNTIED,
    MarianFormulas,
    Options,
    marian_folder,
    marian_weights,
)
from tests.unit.interop.trained_runs import random_run
from tests.unit.text.test_unigram import ODD_TEXTS

from dikkat.interop import marian_export
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.marian_export import export_marian
from dikkat.interop.marian_options import read_options
from dikkat.interop.sentencepiece_file import (
    Piece,
    PieceKind,
    SentencePieceModel,
    read_sentencepiece,
    sentencepiece_file,
)
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.special_tokens import BOS_ID

pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")

MARIAN: dict[str, Any] = {
    "norm_placement": "post", "norm_eps": 1e-6, "positions": "sinusoidal_concatenated", "start_from_zero": True,
}  # fmt: skip
"""What the model of a run must be trained with to fit Marian."""
SHAPES: dict[str, dict[str, Any]] = {
    "tied": {},
    "separate": {"separate": True, "activation": "silu"},
    "untied": {"tie_embeddings": False, "output_bias": True},
    "separate, untied": {"separate": True, "tie_embeddings": False},
    "recurrent": {"decoder_memory": "ssru"},
    "without biases": {"attention_bias": False},
}
KINDS: dict[str, Options] = {"tied": {}, "recurrent": RECURRENT, "separate": SEPARATE, "untied": UNTIED}


def written_run(out: Path, **settings: Any) -> Path:
    return random_run(out, {"kind": "unigram", "vocab_size": 600}, **{**MARIAN, **settings})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_run(tmp_path_factory.mktemp("written") / "run")


def read(folder: Path) -> ForeignTranslator:
    found = read_foreign(folder)
    assert isinstance(found, ForeignTranslator)
    return found


@pytest.mark.parametrize(
    "shape",
    [
        shape if shape in ("tied", "separate, untied") else pytest.param(shape, marks=pytest.mark.nightly)
        for shape in SHAPES
    ],
)
def test_the_formulas_of_marian_give_the_log_probabilities_of_the_run(shape: str, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(written_run(tmp_path / "run", **SHAPES[shape]))
    parity = export_marian(translator, tmp_path / "out", 8)
    assert (parity.sentences, parity.program) == (8, "dikkat's own reader")
    with np.load(tmp_path / "out" / "model.npz", allow_pickle=False) as arrays:
        weights = {name: arrays[name] for name in arrays.files}
    options = read_options(weights.pop("special:model.yml").tobytes(), "model.npz")
    formulas = MarianFormulas({name: str(value) for name, value in options.items()}, weights)
    for text in ("The new dog is waiting.", "日本 and 2024"):
        source = translator.tokenizers[0].encode(text)
        target = translator.tokenizers[-1].encode("Le chien est là.")
        # theirs are ours without the padding and the begin
        expected = formulas.log_probabilities(*([number - 2 for number in (*ids, 2)] for ids in (source, target)))
        own = translator.logits(source, target)[:, 2:].log_softmax(-1)
        torch.testing.assert_close(own, torch.tensor(expected).float(), rtol=0, atol=1e-5)


def test_the_folder_is_imported_as_the_same_run(trained: Path, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(trained)
    export_marian(translator, tmp_path / "out", 2)
    assert run(["import", str(tmp_path / "out"), "--out", str(tmp_path / "again")]) == 0
    again = TrainedTranslator.open(tmp_path / "again")
    assert again.tokenizers[0].entries == translator.tokenizers[0].entries
    assert again.tokenizers[0].encode_batch(ODD_TEXTS) == translator.tokenizers[0].encode_batch(ODD_TEXTS)
    assert again.tokenizers[0].decode_batch(again.tokenizers[0].encode_batch(ODD_TEXTS)) == ODD_TEXTS
    assert (again.length_penalty, again.model.start_from_zero) == (translator.length_penalty, True)
    for name, weight in translator.weights.items():
        # the padding has no entry there
        assert torch.equal(again.weights[name][1:], weight[1:])


@pytest.mark.parametrize(
    "kind", [kind if kind == "untied" else pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS]
)
def test_what_was_imported_is_written_bit_for_bit(kind: str, tmp_path: Path) -> None:
    options = {**POST_NORM, **KINDS[kind]}
    weights = marian_weights(options)
    theirs = marian_folder(tmp_path / "theirs", options, weights, "normalize: 0.7\n")
    assert run(["import", str(theirs), "--out", str(tmp_path / "run")]) == 0
    export_marian(TrainedTranslator.open(tmp_path / "run"), tmp_path / "out", 2)
    with np.load(tmp_path / "out" / "model.npz", allow_pickle=False) as arrays:
        assert {*arrays.files} == {*weights, "special:model.yml"}
        for name, weight in weights.items():
            np.testing.assert_array_equal(arrays[name], weight)
            assert arrays[name].shape == weight.shape
        written = read_options(arrays["special:model.yml"].tobytes(), "model.npz")
    for name, value in options.items():
        if name not in ("version", "dim-vocabs"):
            assert written[name] == read_options(f"{name}: {value}\n".encode(), name)[name]
    assert written["dim-vocabs"] == ["300", "300"]
    for file in theirs.glob("*.spm"):
        before, after = read_sentencepiece(file), read_sentencepiece(tmp_path / "out" / file.name)
        assert [piece.text for piece in after.pieces] == [piece.text for piece in before.pieces]
        assert replace(after, path=file, pieces=before.pieces) == before
    assert "normalize: 0.7\n" in (tmp_path / "out" / "decoder.yml").read_text()


def test_two_cutters_of_one_vocabulary_stay_two(tmp_path: Path) -> None:
    theirs = marian_folder(tmp_path / "theirs", POST_NORM, marian_weights(POST_NORM))
    assert run(["import", str(theirs), "--out", str(tmp_path / "joint")]) == 0
    settings = TrainedTranslator.open(tmp_path / "joint").tokenizer_settings[0]
    whole = read_sentencepiece(theirs / "vocab.spm")
    for side, left_out in (("source", 1), ("target", 2)):
        (theirs / f"{side}.spm").write_bytes(sentencepiece_file(_with_unused(whole, left_out), settings))
    decoder = (theirs / "decoder.yml").read_text()
    (theirs / "decoder.yml").write_text(
        decoder.replace("vocab.spm", "source.spm", 1).replace("vocab.spm", "target.spm")
    )
    assert run(["import", str(theirs), "--out", str(tmp_path / "run")]) == 0
    translator = TrainedTranslator.open(tmp_path / "run")
    assert translator.vocabularies == "shared_ids"
    export_marian(translator, tmp_path / "out", 4)
    found = read(tmp_path / "out")
    text = "The dog is waiting for the new teacher."
    rows = [tokenizer.encode(text) for tokenizer in found.tokenizers]
    assert rows[0] != rows[1]
    assert rows == [tokenizer.encode(text) for tokenizer in translator.tokenizers]


def _with_unused(model: SentencePieceModel, remainder: int) -> list[Piece]:
    """The pieces of a model, of which every third of several letters is never found in a text."""
    pieces: list[Piece] = list(model.pieces)
    for number in range(remainder, len(pieces), 3):
        if len(pieces[number].text) > 1 and pieces[number].kind == PieceKind.NORMAL:
            pieces[number] = replace(pieces[number], kind=PieceKind.UNUSED)
    return pieces


def test_what_marian_does_not_compute_is_named_with_what_to_train_with(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random_run(tmp_path / "run")
    assert run(["export", str(tmp_path / "run"), "--to", "marian", "--out", str(tmp_path / "out")]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "with tokenizer.kind = bpe, model.start_from_zero = false, model.norm_placement = pre, " in complaint
    for name, value in {
        "tokenizer.kind": "unigram",
        **{f"model.{name}": value for name, value in MARIAN.items()},
    }.items():
        assert f"--set {name}={str(value).lower()}" in complaint
    asked = ["export", str(trained), "--to", "marian", "--precision", "int8", "--out", str(tmp_path / "out")]
    assert run(asked) == 2
    assert "--to marian is always written in float32" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_a_vector_at_the_start_is_refused_whatever_the_setting_says(trained: Path, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(trained)
    with torch.no_grad():
        translator.network.target_embedding.weight[BOS_ID, 3] = 0.01
    with pytest.raises(UsageError, match=r"model\.start_from_zero = false; train one with"):
        export_marian(translator, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_of_an_export_that_computes_something_else(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = marian_export._array

    def wrong(tensor: torch.Tensor) -> Any:
        return right(tensor * 1.01 if tensor.dim() == 2 else tensor)

    monkeypatch.setattr(marian_export, "_array", wrong)
    with pytest.raises(DataError, match="is not written as it is; nothing was written"):
        export_marian(TrainedTranslator.open(trained), tmp_path / "out", 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.npz", "vocab.spm", "decoder.yml"])
@pytest.mark.nightly
def test_two_hundred_damaged_files_are_refused_in_a_line_or_read_whole(
    name: str, trained: Path, tmp_path: Path
) -> None:
    export_marian(TrainedTranslator.open(trained), tmp_path / "out", 2)
    file, names = tmp_path / "out" / name, {path.name for path in (tmp_path / "out").iterdir()}
    original, whole = file.read_bytes(), read(tmp_path / "out").weights
    draw, refused = random.Random(5), list[str]()
    for number in range(200):
        content = bytearray(original)
        if number % 2:
            del content[draw.randrange(len(content)) :]
        else:
            # of a zip what describes the arrays stands at its end
            start = max(0, len(content) - 5000) if number % 4 else 0
            content[draw.randrange(start, len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(content)
        try:
            found = read(tmp_path / "out")
        except (DataError, MissingInputError) as error:
            refused.append(str(error))
        else:
            assert all(torch.equal(weight, whole[own]) for own, weight in found.weights.items())
    assert len(refused) > 60
    assert all(message.startswith(str(tmp_path / "out")) and message.isprintable() for message in refused)
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
