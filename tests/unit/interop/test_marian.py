"""Marian's own files: the same numbers as its formulas, options that are refused by name, and damaged files."""

from __future__ import annotations

import io
import pickle
import random
import tracemalloc
import zipfile
from pathlib import Path

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
    marian_binary,
    marian_folder,
    marian_weights,
    vocabularies,
)
from tests.unit.interop.translators import phrases

from dikkat.config import build_config
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.marian import is_marian
from dikkat.interop.marian_npz import read_npz
from dikkat.tasks.classification.prepare import shape_settings
from dikkat.tasks.common.settings import without_translating
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as RuntimeTranslator

KINDS: dict[str, Options] = {
    "tied": {},
    "recurrent": RECURRENT,
    "separate": SEPARATE,
    # scaling decides only what untrained weights are
    "untied": {**UNTIED, "transformer-depth-scaling": "true"},
}


def read(folder: Path) -> ForeignTranslator:
    found = read_foreign(folder)
    assert isinstance(found, ForeignTranslator)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return marian_folder(tmp_path_factory.mktemp("marian") / "theirs", POST_NORM, marian_weights(POST_NORM))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
def test_log_probabilities_are_those_of_the_formulas(kind: str, narrow: bool, tmp_path: Path) -> None:
    options = {**POST_NORM, **KINDS[kind]}
    weights = marian_weights(options, spread=0.15)
    if narrow:
        # the second norm divides by so little that its epsilon shows
        for name in ("self_Wo_ln_scale", "self_Wo_ln_bias", "ffn_b1", "ffn_b2"):
            weights[f"encoder_l1_{name}"] *= np.float32(0.003)
    found = read(marian_folder(tmp_path / "theirs", options, weights))
    found.write(tmp_path / "run", tmp_path, "dikkat import")
    ours = Translator.load(tmp_path / "run", engine="torch")
    formulas, draw = MarianFormulas(options, weights), np.random.default_rng(2)
    own = [{row: number for number, row in enumerate(order.rows) if number > 1} for order in found.orders]
    # (V,): our id of each of theirs
    ours_of = [torch.tensor([ids[row] for row in range(len(ids))]) for ids in own]
    for length in (1, 7, 30):
        source, target = (draw.integers(2, 300, length).tolist() for _ in range(2))
        expected = formulas.log_probabilities([*source, 0], [*target, 0])
        inputs = ours_of[0][[*source, 0]][None]
        written = torch.cat((torch.tensor([1]), ours_of[-1][target]))[None]
        with torch.no_grad():
            logits = ours.model(inputs, written, torch.ones_like(inputs, dtype=torch.bool))[0]
        # of the padding and the begin, which they do not have, nothing is left over
        log_probabilities = logits.log_softmax(-1)[:, ours_of[-1]]
        torch.testing.assert_close(log_probabilities, torch.tensor(expected).float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_engines_write_what_the_formulas_find_most_probable(kind: str, tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")
    options = {**POST_NORM, **KINDS[kind]}
    weights = marian_weights(options, seed=2, spread=0.8)
    theirs = marian_folder(tmp_path / "theirs", options, weights)
    read(theirs).write(tmp_path / "run", tmp_path, "dikkat import")
    formulas = MarianFormulas(options, weights)
    first, second = (
        sentencepiece.SentencePieceProcessor(model_file=str(theirs / name)) for name in vocabularies(options)
    )
    texts, expected = phrases(12)[0], []
    for text in texts:
        target: list[int] = []
        while len(target) < 20 and (not target or target[-1] != 0):
            target.append(int(formulas.log_probabilities([*first.encode(text), 0], [*target, 0])[-1].argmax()))
        expected.append(second.decode([number for number in target if number]))
    assert len(set(expected)) > 3
    longest = DecodingOptions(max_length_factor=0, max_length_offset=20)
    for engine in (Translator.load(tmp_path / "run", engine="torch"), RuntimeTranslator.load(tmp_path / "run")):
        assert [each.text.strip() for each in engine.stream(texts, longest, retry_loops=False)] == expected


def test_the_way_back_is_what_was_read(folder: Path) -> None:
    weights = marian_weights(POST_NORM)
    back = read(folder).theirs()
    assert back.keys() == weights.keys()
    for name, tensor in back.items():
        np.testing.assert_array_equal(tensor.numpy().reshape(weights[name].shape), weights[name])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "transformer-new"),
        ("transformer-preprocess", "n"),
        ("transformer-postprocess", "da"),
        ("transformer-postprocess", "dar"),
        ("transformer-postprocess-emb", "nd"),
        ("transformer-postprocess-top", "n"),
        ("transformer-ffn-activation", "gelu"),
        ("transformer-ffn-depth", "3"),
        ("transformer-train-position-embeddings", "true"),
        ("transformer-train-positions", "true"),
        ("transformer-disable-position-embeddings", "true"),
        ("transformer-attention-mask", "alibi"),
        ("transformer-decoder-autoreg", "average-attention"),
        ("transformer-tied-layers", "\n  - 1\n  - 1"),
        ("transformer-no-projection", "true"),
        ("right-left", "true"),
    ],
)
def test_an_option_that_computes_something_else_is_refused_by_name(name: str, value: str, tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "theirs", {**POST_NORM, name: value}, marian_weights(POST_NORM))
    with pytest.raises(DataError, match=rf"model\.npz: the option {name} = .* is not supported"):
        read(folder)


@pytest.mark.parametrize(
    ("penalty", "named"), [("0", ()), ("0.5", ("word-penalty = 0.5, which the search here does not apply",))]
)
def test_a_penalty_that_the_search_does_not_know_is_named(penalty: str, named: tuple[str, ...], tmp_path: Path) -> None:
    decoder = f"normalize: 1\nword-penalty: {penalty}\n"
    folder = marian_folder(tmp_path / "theirs", POST_NORM, marian_weights(POST_NORM), decoder)
    assert read(folder).left_out == named


def test_learned_positions_are_refused_by_name(tmp_path: Path) -> None:
    weights = {**marian_weights(POST_NORM), "Wpos": np.zeros((100, 32), np.float32)}
    with pytest.raises(DataError, match="this model has no weight Wpos"):
        read(marian_folder(tmp_path / "theirs", POST_NORM, weights))


@pytest.mark.parametrize("suffix", [".npz", ".bin"])
@pytest.mark.parametrize("count", [24, pytest.param(200, marks=pytest.mark.nightly)])
def test_damaged_files_are_refused_in_one_line_or_read_whole(suffix: str, count: int, tmp_path: Path) -> None:
    weights = marian_weights(POST_NORM)
    folder = marian_folder(tmp_path / "theirs", POST_NORM, weights)
    if suffix == ".bin":
        (folder / "model.npz").unlink()
        (folder / "model.bin").write_bytes(marian_binary(POST_NORM, weights, {"encoder_l1_ffn_W1"}))
        (folder / "decoder.yml").write_text((folder / "decoder.yml").read_text().replace(".npz", ".bin"))
    model, names = folder / f"model{suffix}", {file.name for file in folder.iterdir()}
    original, whole = model.read_bytes(), read(folder).weights
    # most of a file is numbers; as often what describes them: at the end of a zip, at the beginning of a .bin
    described = range(len(original) - 5000, len(original)) if suffix == ".npz" else range(6000)
    draw, refused = random.Random(3), list[str]()
    for number in range(count):
        content = bytearray(original)
        if number % 2:
            del content[draw.randrange(len(content)) :]
        else:
            place = draw.choice(described) if number % 4 else draw.randrange(len(content))
            content[place] ^= 1 << draw.randrange(8)
        model.write_bytes(content)
        try:
            found = read(folder)
        except DataError as error:
            refused.append(str(error))
        else:
            differing = sum(not torch.equal(tensor, whole[name]) for name, tensor in found.weights.items())
            # such as a bit of a date; a .bin has no checksum, and a number may be another one
            assert differing <= (suffix == ".bin")
    assert len(refused) > count * 0.6
    assert all(message.startswith(f"{model}: ") and message.isprintable() for message in refused)
    assert {file.name for file in folder.iterdir()} == names


def test_the_command_writes_a_run_or_nothing_at_all(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capitals = tmp_path / "capitals" / "MODEL.NPZ"
    capitals.parent.mkdir()
    for file in folder.iterdir():
        name = capitals.name if file.suffix == ".npz" else file.name
        (capitals.parent / name).write_bytes(file.read_bytes())
    assert run(["import", str(capitals), "--out", str(tmp_path / "run")]) == 0
    # a classifier that begins with its encoder has nothing of its decoder
    settings = build_config(dict(shape_settings(tmp_path / "run")))
    assert without_translating(settings, "here").model.start_from_zero is False
    assert read_config(tmp_path / "run", "translator")["model"]["start_from_zero"] is True
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 9999 if file.suffix == ".npz" else None])
    capsys.readouterr()
    assert run(["import", str(tmp_path / "model.npz"), "--out", str(tmp_path / "nothing")]) == 65
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "model.npz: not a readable .npz file" in complaint
    assert not (tmp_path / "nothing").exists()
    assert run(["import", str(tmp_path / "none.npz"), "--out", str(tmp_path / "nothing")]) == 66
    complaint = capsys.readouterr().err
    assert complaint.endswith("none.npz: there is no such file\n")
    assert complaint.count("\n") == 1


def test_eight_bits_are_divided_by_their_multiplier_and_turned(tmp_path: Path) -> None:
    weights = marian_weights(POST_NORM)
    folder = marian_folder(tmp_path / "theirs", POST_NORM, weights)
    exact = read(folder).theirs()
    (folder / "model.npz").unlink()
    rounded = {name for name in weights if "_W" in name and "_ln_" not in name} | {"Wemb"}
    (folder / "model.bin").write_bytes(marian_binary(POST_NORM, weights, rounded))
    (folder / "decoder.yml").write_text((folder / "decoder.yml").read_text().replace(".npz", ".bin"))
    for name, tensor in read(folder).theirs().items():
        step = np.abs(weights[name]).max() / 127 if name in rounded else 0
        torch.testing.assert_close(tensor, exact[name], rtol=0, atol=float(step) * 0.5001)


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.mark.parametrize("stored", ["pickle", "array of objects", "text"])
def test_what_is_no_array_of_numbers_is_never_opened(stored: str, folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    payload = Payload(tmp_path / "opened")
    with zipfile.ZipFile(tmp_path / "model.npz", "a") as archive, archive.open("Wnew.npy", "w") as entry:
        if stored == "array of objects":
            np.lib.format.write_array(entry, np.array([payload], dtype=object))
        else:
            entry.write(pickle.dumps(payload) if stored == "pickle" else b"text")
    with pytest.raises(DataError, match=r"model\.npz: (not a readable|the weight Wnew is of the type bytes)"):
        read(tmp_path)
    assert not payload.path.exists()


def test_a_folder_that_marian_trained_in_is_read_where_it_lies(folder: Path, tmp_path: Path) -> None:
    """Marian writes model.npz.decoder.yml with whole paths, and two more .yml beside it."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    options = (tmp_path / "decoder.yml").read_text()
    (tmp_path / "decoder.yml").unlink()
    options = options.replace("relative-paths: true", "relative-paths: false").replace("  - ", f"  - {tmp_path}/")
    (tmp_path / "model.npz.decoder.yml").write_text(options)
    for other in ("", ".progress"):
        (tmp_path / f"model.npz{other}.yml").write_text("type: transformer\n")
    expected = read(folder).theirs()
    for name, tensor in read(tmp_path).theirs().items():
        assert torch.equal(tensor, expected[name])
    (tmp_path / "model.npz.decoder.yml").write_text(options.replace(str(tmp_path), "/elsewhere"))
    with pytest.raises(DataError, match="names a file outside the folder: /elsewhere"):
        read(tmp_path)


def test_a_folder_of_hugging_face_is_none_of_marian(folder: Path, tmp_path: Path) -> None:
    assert is_marian(folder)
    (tmp_path / "training.yml").write_text("a: b\n")
    assert not is_marian(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    (tmp_path / "config.json").write_text("{}")
    assert not is_marian(tmp_path)


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("model.npz.orig.npz", ("", "")),
        ("model.best.npz", ("", "")),
        ("model.base.npz", ("", "")),
        ("model.npz.enfr.npz", ("", "")),
        ("model.enfr.npz", ("en", "fr")),
    ],
)
def test_languages_are_those_of_firefox_names_alone(
    name: str, languages: tuple[str, str], folder: Path, tmp_path: Path
) -> None:
    for file in folder.iterdir():
        (tmp_path / (name if file.suffix == ".npz" else file.name)).write_bytes(file.read_bytes())
    found = read(tmp_path / name)
    assert (found.languages.source, found.languages.target) == languages


def test_of_several_models_that_marian_kept_the_one_that_is_named_is_read(folder: Path, tmp_path: Path) -> None:
    decoder = (folder / "decoder.yml").read_text()
    (tmp_path / "vocab.spm").write_bytes((folder / "vocab.spm").read_bytes())
    for number, model in enumerate(("model.npz", "model.npz.best-bleu.npz")):
        (tmp_path / model).write_bytes((folder / "model.npz").read_bytes())
        options = decoder.replace("model.npz", model).replace("normalize: 1", f"normalize: 0.{number + 5}")
        (tmp_path / f"{model}.decoder.yml").write_text(options)
        (tmp_path / f"{model}.yml").write_text("type: transformer\n")
    for number, model in enumerate(("model.npz", "model.npz.best-bleu.npz")):
        assert read(tmp_path / model).decoding.length_penalty == (number + 5) / 10
    with pytest.raises(MissingInputError) as caught:
        read(tmp_path)
    listed = "model.npz.best-bleu.npz.decoder.yml, model.npz.decoder.yml"
    assert str(caught.value) == (
        f"{tmp_path}: several .yml may name the vocabularies ({listed}); name the file of one model, such as"
        f" {tmp_path}/model.npz.best-bleu.npz"
    )
    # one that is there for people goes before those that training left
    (tmp_path / "decoder.yml").write_text(decoder)
    (tmp_path / "config.yml").write_text("a: b\n")
    assert read(tmp_path).decoding.length_penalty == 1
    for file in tmp_path.glob("*.yml"):
        file.unlink()
    with pytest.raises(MissingInputError, match=r"there is no decoder\.yml or other single \.yml to name"):
        read(tmp_path)


def test_an_array_that_claims_a_tebibyte_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path, header = tmp_path / "model.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 19, 1 << 19)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Wemb.npy", header.getvalue() + b"\0" * 64)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"not a readable \.npz file \(Wemb\.npy claims a shape"):
        read_npz(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
