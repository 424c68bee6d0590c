"""A package of Argos with a target_prefix: what CTranslate2 writes behind that token, every engine writes."""

from __future__ import annotations

import base64
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.ctranslate2_folders import small_run
from tests.unit.interop.translators import phrases, sentencepiece_model

from dikkat.interop.argos_package import read_argos
from dikkat.interop.ctranslate2.agreement import exported_files
from dikkat.interop.ctranslate2.reading import read_ctranslate2, with_target_prefix
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.prepare import shape_settings
from dikkat.tasks.translation.attention import Attending
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as TorchTranslator
from dikkat_runtime.text.pieces import HIDDEN

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which the extra [test] brings")

LINES = phrases(40)[0]
MAX_LENGTH = 24
GREEDY = DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH)
BEAM = BeamOptions(beam_size=4, n_best=3, max_length_factor=0, max_length_offset=MAX_LENGTH)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose outputs begin with a token of the middle of its vocabulary."""
    home = tmp_path_factory.mktemp("package")
    sizes = {"model_dim": 32, "num_heads": 4, "feed_forward_dim": 48, "encoder_layers": 2, "decoder_layers": 2}
    base = small_run(home / "base", **sizes, output_bias=True)
    run, draw = RunDirectory.open(base), torch.Generator().manual_seed(4)
    weights = run.load_weights()
    for name, weight in sorted(weights.items()):
        if "norm" not in name:
            weights[name] = torch.randn(weight.shape, generator=draw) * (0.6 if weight.dim() > 1 else 0.3)
    # as it is, the token written last would be the most probable one, since the output matrix is the embedding
    weights["decoder.final_norm.weight"] = -weights["decoder.final_norm.weight"]
    weights["output_bias"][EOS_ID] += 6
    run.save_weights(weights, {})
    files = exported_files(TrainedTranslator.open(base), "float32", with_tokenizers=False)
    config = {name: value for name, value in json.loads(files["config.json"]).items() if name != "dikkat"}
    marks = {"bos": "<s>", "decoder_start": "<s>", "eos": "</s>", "unk": "<unk>"}
    config |= {f"{name}_token": entry for name, entry in marks.items()}
    entries = ["<blank>", "<s>", "</s>", "<unk>", *json.loads(files["shared_vocabulary.json"])[4:]]
    pieces = sentencepiece_model(phrases(100)[0], 80)
    (home / "pieces.model").write_bytes(pieces)
    known = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    own = iter([piece for piece in map(known.id_to_piece, range(2, len(known))) if piece not in entries])
    # a piece of the model is an entry, and so is the token that names a language
    entries = [*entries[:4], "__fr__", *(next(own, entry) for entry in entries[5:])]
    content = {
        "metadata.json": json.dumps({"from_code": "en", "to_code": "fr", "target_prefix": "__fr__"}).encode(),
        "sentencepiece.model": pieces,
        "model/model.bin": files["model.bin"],
        "model/config.json": json.dumps(config).encode(),
        "model/shared_vocabulary.json": json.dumps(entries).encode(),
    }
    with zipfile.ZipFile(home / "en_fr.argosmodel", "w") as archive:
        for name, one in content.items():
            archive.writestr(f"translate-en_fr/{name}", one)
    return home / "en_fr.argosmodel"


@pytest.fixture(scope="module")
def imported(package: Path) -> Path:
    assert run_command(["import", str(package), "--out", str(package.parent / "run")]) == 0
    return package.parent / "run"


@pytest.fixture(scope="module")
def theirs(package: Path) -> Any:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(package.parent / "installed")
    folder = package.parent / "installed" / "translate-en_fr" / "model"
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


@pytest.mark.peer
def test_tokens_and_probabilities_are_those_of_ctranslate2(package: Path, imported: Path, theirs: Any) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package.parent / "pieces.model"))
    native, reference = Translator.load(imported), TorchTranslator.load(imported, engine="torch")
    names = [name.removeprefix(HIDDEN) for name in native.target_tokenizer.entries]
    found = theirs.translate_batch(
        [pieces.encode(line, out_type=str) for line in LINES], target_prefix=[["__fr__"]] * len(LINES), beam_size=1,
        length_penalty=0, max_decoding_length=MAX_LENGTH + 1, min_decoding_length=0, return_scores=True,
    )  # fmt: skip
    sources = native.tokenizer.encode_batch(LINES)
    for translator in (native, reference):
        ours = translator.engine.search(translator.engine.encode(sources), GREEDY)
        for (hypothesis,), result in zip(ours, found, strict=True):
            assert ["__fr__", *(names[token] for token in hypothesis.tokens)] == result.hypotheses[0]
            assert hypothesis.log_probability == pytest.approx(result.scores[0], abs=5e-3)
    assert len({tuple(result.hypotheses[0]) for result in found}) > 10


def test_engines_agree_in_every_search_and_alone(imported: Path) -> None:
    native, reference = Translator.load(imported), TorchTranslator.load(imported, engine="torch")
    sources = native.tokenizer.encode_batch(LINES[:5])
    held = replace(BEAM, no_repeat_ngram=2)
    for options in (BEAM, replace(BEAM, beam_size=1, n_best=1), held, SamplingOptions(max_length_offset=4)):
        ours, theirs = (one.engine.search(one.engine.encode(sources), options) for one in (native, reference))
        if not isinstance(options, SamplingOptions):
            assert [[one.tokens for one in own] for own in ours] == [[one.tokens for one in own] for own in theirs]
        alone = [native.engine.search(native.engine.encode([source]), options)[0] for source in sources[:1]]
        assert alone[0] == ours[0]
        for own in (ours, theirs):
            # what search says of its hypotheses is what scoring them says
            memory = reference.engine.encode(sources)
            scored = forced_scores(reference.engine, memory, [hypotheses[0].tokens for hypotheses in own])
            for one, hypotheses in zip(scored, own, strict=True):
                best = hypotheses[0]
                total = one.log_probabilities[: len(best.tokens) + best.finished].sum()
                assert best.log_probability == pytest.approx(total, abs=2e-3)
                # the token that is forced is one of the length, as in CTranslate2
                length = len(best.tokens) + best.finished + 1
                assert best.score == pytest.approx(best.log_probability / length**options.alpha, abs=2e-3)


def test_int8_writes_what_its_own_steps_find_behind_the_token(imported: Path) -> None:
    translator = Translator.load(imported, precision="int8")
    for source in translator.tokenizer.encode_batch(LINES[:6]):
        memory = translator.engine.encode([source])
        steps, tokens = translator.engine.steps(memory, 1), [BOS_ID]
        while len(tokens) <= MAX_LENGTH and tokens[-1] != EOS_ID:
            logits = steps.step(tokens[-1:])[0]
            logits[[PAD_ID, BOS_ID]] = -np.inf
            tokens.append(int(logits.argmax()))
        ((found,),) = translator.engine.search(memory, GREEDY)
        assert [*found.tokens, *([EOS_ID] if found.finished else [])] == tokens[1:]


def test_prefixes_of_people_and_sessions_begin_behind_the_token(imported: Path) -> None:
    native, reference = Translator.load(imported), TorchTranslator.load(imported, engine="torch")
    typed = [one.text[:3] for one in native.stream(LINES[:5], GREEDY)]
    completed = [one.text for one in native.stream(LINES[:5], GREEDY, prefixes=typed)]
    assert [one.text for one in reference.stream(LINES[:5], GREEDY, prefixes=typed)] == completed
    for translator in (native, reference):
        for line, prefix, text in zip(LINES[:3], typed, completed, strict=False):
            session = translator.complete(line, GREEDY)
            session.suggest(prefix[:1])
            assert session.suggest(prefix).text == text
    assert all(text.startswith(prefix) for text, prefix in zip(completed, typed, strict=True))


@pytest.mark.nightly
def test_what_came_with_a_prefix_goes_back_with_it_and_elsewhere_it_is_refused(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again.argosmodel"
    for to, path in (("argos", out), ("ctranslate2", tmp_path / "folder")):
        words = ["export", str(imported), "--to", to, "--out", str(path), "--precision", "float32"]
        assert run_command(words) == 0
        # both were compared with CTranslate2, which was given the token
        assert "CTranslate2 writes 200 sample sentences as the run does" in capsys.readouterr().err
        again = read_argos(path) if to == "argos" else read_ctranslate2(path)
        assert again.model.target_prefix is not None
        assert again.tokenizers[-1].entries[again.model.target_prefix].removeprefix(HIDDEN) == "__fr__"
    readme = (tmp_path / "folder" / "README.md").read_text()
    assert 'target_prefix=[["__fr__"]]' in readme
    assert "hypotheses[0][1:]" in readme
    for to in ("onnx", "marian", "huggingface", "keras", "web"):
        capsys.readouterr()
        assert run_command(["export", str(imported), "--to", to, "--out", str(tmp_path / to)]) == 2
        message = capsys.readouterr().err
        assert to == "web" or "model.target_prefix = " in message.splitlines()[-1]
        assert not (tmp_path / to).exists()


def test_a_server_answers_what_the_run_writes_behind_the_token(imported: Path) -> None:
    pytest.importorskip("starlette", reason="needs dikkat-runtime[serve]: pip install -e './runtime[serve]'")
    from tests.runtime.server.asking import BEAM, served

    from dikkat_runtime.server.models import Catalog

    lines = LINES[:4]
    pair: dict[str, Any] = {"source": "en", "target": "fr"}
    written = [one.text for one in Translator.load(imported).stream(lines, BeamOptions(beam_size=BEAM))]
    assert len(set(written)) > 2
    with served(Catalog([f"en-fr={imported}"])) as server:
        assert server.post("/translate", q=lines, **pair)["translatedText"] == written
        several = server.post("/translate", q=lines[0], alternatives=2, **pair)
        assert several["translatedText"] == written[0]
        assert len(several["alternatives"]) == 2
        longest = max(range(len(lines)), key=lambda number: len(written[number]))
        ask: dict[str, Any] = {"model": "en-fr", "source": lines[longest]}
        assert server.post("/page/complete", prefix="", **ask)["target"] == written[longest]
        begun = written[longest - 1][:3]
        assert server.post("/page/complete", prefix=begun, **ask)["target"].startswith(begun)
        # a row of every token that is shown, and none of the one that is not
        maps = server.post("/page/attention", target=written[longest], **ask)
        weights = base64.b64decode(maps["weights"])
        rows, columns = len(maps["target"]["tokens"]), len(maps["source"]["tokens"])
        assert len(weights) == maps["layers"] * maps["heads"] * rows * columns
        shown = np.frombuffer(weights, np.uint8).reshape(maps["layers"], maps["heads"], rows, columns) / 255
        recorded = Attending(TorchTranslator.load(imported, engine="torch")).forced(lines[longest], written[longest])
        assert "__fr__" not in json.dumps([several, maps])
        assert rows > 2
        for own in recorded.select("decoder", "cross"):
            expected = own.weights[1 : 1 + rows, :columns]
            np.testing.assert_allclose(shown[own.layer, own.head], expected, atol=0.5 / 255 + 1e-4)


def test_a_classifier_that_begins_with_its_encoder_writes_no_token(imported: Path) -> None:
    settings = shape_settings(imported)
    assert RunDirectory.open(imported).read_config()["model"]["target_prefix"] > EOS_ID
    assert settings["model"]["target_prefix"] is None


@pytest.mark.nightly
def test_maps_have_a_row_of_the_token_and_the_others_are_those_of_every_engine(imported: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps.json"
    assert run_command(["attend", str(imported), LINES[0], "--out", str(out)]) == 0
    (sentence,) = json.loads(out.read_text())["sentences"]
    assert sentence["output_tokens"][:2] == ["<bos>", "__fr__"]
    links = tmp_path / "links.align"
    assert run_command(["attend", str(imported), LINES[0], "--target", LINES[1], "--out", str(links)]) == 0
    # one for each word that is shown
    targets = sorted(int(link.partition("-")[2]) for link in links.read_text().split())
    assert targets == [*range(len(LINES[1].split()))]
    # among much else it compares the two engines, step by step
    assert run_command(["doctor", str(imported)]) == 0


@pytest.mark.parametrize("value", ["no entry", 7, ["__fr__"], "<s>", "</s>"])
def test_a_prefix_that_is_no_entry_is_refused_in_a_line(
    value: object, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "en_fr.argosmodel"
    with zipfile.ZipFile(package) as whole, zipfile.ZipFile(path, "w") as archive:
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith("metadata.json"):
                content = json.dumps(json.loads(content) | {"target_prefix": value}).encode()
            archive.writestr(name, content)
    assert run_command(["import", str(path), "--out", str(tmp_path / "run")]) == 65
    message = capsys.readouterr().err
    assert f"{path}/metadata.json: target_prefix = " in message
    assert message.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_of_two_entries_that_read_alike_the_one_that_is_not_hidden_is_meant(package: Path) -> None:
    found = read_argos(package)
    entries = [*found.tokenizers[-1].entries]
    entries[5:7] = [f"{HIDDEN}__es__", "__es__"]
    named = replace(found, tokenizers=(SimpleNamespace(entries=entries),))  # type: ignore[arg-type]
    assert with_target_prefix(named, "__es__", package).model.target_prefix == 6
    entries[6] = "other"
    assert with_target_prefix(named, "__es__", package).model.target_prefix == 5


@pytest.mark.parametrize(("is_allowed", "begins", "is_written"), [(0, 8, False), (1, 8, True), (1, 4, False)])
def test_a_shortlist_is_a_map_where_ctranslate2_finds_the_token_among_its_words(
    is_allowed: bool, begins: int, is_written: bool, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It allows the token in any case, and looks for it where it stood among the words of the first sentence."""
    found = read_argos(package)
    size, prefix = found.model.vocab_size, found.model.target_prefix
    assert prefix is not None
    assert 4 < prefix < 8
    always = [EOS_ID, UNK_ID, *([prefix] if is_allowed else [])]
    # a piece is written with words from `begins` on, which are before the token or behind it
    draw = np.random.default_rng(3)
    words = draw.integers(begins, size, (size - 4, 8)).astype(np.int32)
    words[::3, 0] = begins
    starts = np.maximum(np.arange(-4, size - 3, dtype=np.int32), 0) * 8
    shortlist = Shortlist(np.array(sorted(always), np.int32), starts, words.flatten())
    replace(found, shortlist=shortlist).write(tmp_path / "run", package, "dikkat import")
    out = tmp_path / "out"
    assert run_command(["export", str(tmp_path / "run"), "--to", "ctranslate2", "--out", str(out)]) == 0
    assert (out / "vmap.txt").exists() == is_written
    told = f"the words of {out}/vmap.txt are written" if is_written else "the shortlist of the run is not exported"
    assert told in capsys.readouterr().err
    if is_written:
        # what comes back writes the same, among the same words
        assert run_command(["import", str(out), "--out", str(tmp_path / "again")]) == 0
        first, again = (
            [one.text for one in Translator.load(tmp_path / name).stream(LINES, BEAM)] for name in ("run", "again")
        )
        assert first == again
        assert first != [one.text for one in Translator.load(tmp_path / "run", all_words=True).stream(LINES, BEAM)]
