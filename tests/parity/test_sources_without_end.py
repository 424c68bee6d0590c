"""Models whose sources have no end mark (`add_source_eos = false`, as in OpenNMT-py): every path reads them so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from tests.unit.interop.ctranslate2_folders import written as written_to
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import phrases

from dikkat.interop.ctranslate2.agreement import exported_files, spelled_entries
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.torch_engine.engine import TorchContexts
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.run.config import read_config
from dikkat_runtime.tasks.aligner import Aligner, forced_attention
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.translator import Translator

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
pytestmark = pytest.mark.peer

ENGINES: tuple[Literal["native", "torch"], ...] = ("native", "torch")
MAX_LENGTH = 24
ROUGH = 2e-4 * MAX_LENGTH
"""Nats that CTranslate2 is off, whose exponentials are approximations, from what float64 computes."""
FEW = phrases(40)[0][:12]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("run") / "run", add_source_eos=False)


@pytest.fixture(scope="module")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_to(tmp_path_factory.mktemp("folder"), exported_files(TrainedTranslator.open(run), "float32"))


@pytest.fixture(scope="module")
def imported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "run"
    assert run_command(["import", str(folder), "--out", str(out)]) == 0
    return out


def theirs(run: Path, folder: Path) -> tuple[list[list[int]], list[float]]:
    """The ids that CTranslate2 writes, and the log-probability of each output with its end mark."""
    translator = TrainedTranslator.open(run)
    entries = spelled_entries(translator)[0]
    sources = [[entries[number] for number in row] for row in translator.tokenizers[0].encode_batch(FEW)]
    results = ctranslate2.Translator(str(folder), intra_threads=1).translate_batch(
        sources, beam_size=1, length_penalty=0, max_decoding_length=MAX_LENGTH, return_scores=True
    )
    ids = {entry: number for number, entry in enumerate(entries)}
    return [[ids[entry] for entry in result.hypotheses[0]] for result in results], [r.scores[0] for r in results]


def test_text_and_scores_are_those_of_ctranslate2_by_every_path(run: Path, folder: Path, imported: Path) -> None:
    assert json.loads((folder / "config.json").read_text())["add_source_eos"] is False
    written, scores = theirs(run, folder)
    assert len({tuple(row) for row in written}) > 5
    options = DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH)
    for name in ENGINES:
        translator = Translator.load(imported, engine=name)
        sources, engine = [translator.encode(text) for text in FEW], translator.engine
        together = engine.search(engine.encode(sources), options)
        alone = [engine.search(engine.encode([source]), options)[0] for source in sources]
        for ((output,), (single,)), row, score in zip(zip(together, alone, strict=True), written, scores, strict=True):
            assert list(output.tokens) == list(single.tokens) == row, name
            assert [output.log_probability, single.log_probability] == pytest.approx([score] * 2, abs=ROUGH), name
    exact = TrainedTranslator.open(imported)
    # all steps in one pass, without a cache
    for source, target, score in zip(exact.tokenizers[0].encode_batch(FEW), written, scores, strict=True):
        probabilities = exact.logits(source, target).log_softmax(dim=-1)
        tokens = torch.tensor([*target, 2][:MAX_LENGTH])
        taken = probabilities[torch.arange(len(tokens)), tokens].sum()
        assert float(taken) == pytest.approx(score, abs=ROUGH)


def test_the_mark_changes_what_is_written(run: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "add_source_eos": True}))
    assert theirs(run, other)[0] != theirs(run, folder)[0]


def test_beams_are_those_of_the_torch_engine(run: Path) -> None:
    options = BeamOptions(beam_size=4, n_best=2)
    ours, torchs = (Translator.load(run, engine=name).translate(FEW, options) for name in ENGINES)
    assert [item.text for item in ours] == [item.text for item in torchs]
    assert [item.score for item in ours] == pytest.approx([item.score for item in torchs], abs=1e-4)


def test_maps_and_vectors_have_no_column_for_a_mark(run: Path) -> None:
    translator = Translator.load(run, engine="torch")
    source, target = FEW[0], FEW[1]
    ids, written = translator.encode(source), translator.target_tokenizer.encode(target)
    recorded = [one for one in translator.attend(source, target) if one.kind == "cross"]
    assert {one.key_tokens for one in recorded} == {tuple(translator.tokenizer.labels(ids))}
    # (L, H, T + 1, S), the last row of which writes the end mark
    layers = translator.config.model.decoder_layers
    maps = np.stack([one.weights for one in recorded]).reshape(layers, -1, len(written) + 1, len(ids))
    np.testing.assert_allclose(Aligner.load(run).attend(source, target).weights, maps[:, :, :-1], atol=1e-5)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    ours, theirs = (
        forced_attention(run, read_config(run)).contexts(ids, written),
        TorchContexts(translator.model)(ids, written),
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    engine = Translator.load(run, engine="native").engine
    (scores,) = forced_scores(engine, engine.encode([ids]), [written])
    assert scores.attention.shape == (len(written) + 1, len(ids))
    np.testing.assert_allclose(scores.attention, maps[-1].mean(axis=0), atol=1e-4)


def test_the_vector_of_a_line_is_the_mean_of_its_tokens_alone(run: Path) -> None:
    translator = Translator.load(run, engine="torch")
    ids = torch.tensor([translator.encode(FEW[0])])
    with torch.inference_mode():
        states = translator.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))[0]
    for name in ENGINES:
        embedder = Embedder.load(run, engine=name)
        (vector,) = embedder.stream([FEW[0]])
        np.testing.assert_allclose(vector, states.mean(dim=0), atol=1e-4)
        assert [token.text for token in embedder.tokens([FEW[0]])] == translator.tokenizer.labels(ids[0].tolist())


def test_what_cannot_hold_such_a_model_names_the_setting(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in ("huggingface", "marian"):
        assert run_command(["export", str(run), "--to", target, "--out", str(tmp_path / target)]) == 2
        assert "model.add_source_eos = false" in capsys.readouterr().err
    assert run_command(["page", str(run), "--out", str(tmp_path / "page.html")]) == 2
    assert "does not compute model.add_source_eos = False" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_graphs_of_onnx_read_a_tokenizer_without_the_mark(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, which dikkat-runtime brings")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, which the extra [test] brings")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert run_command(["export", str(run), "--to", "onnx", "--out", "."]) == 0
    # which is named by the folder, not by how it is written
    assert (tmp_path / "out" / "README.md").read_text().startswith("# out\n")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    ours = TrainedTranslator.open(run).tokenizers[0].encode_batch(FEW)
    assert [encoding.ids for encoding in again.encode_batch(FEW)] == ours
