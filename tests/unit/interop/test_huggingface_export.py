"""MarianMT folders that are written of runs: what transformers and sentencepiece make of them, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.interop.trained_runs import MARIAN_MT, random_run, trained_run
from tests.unit.interop.translators import marian_folder, phrases

from dikkat.cli.export import export
from dikkat.interop import huggingface_export
from dikkat.interop.huggingface_export import export_huggingface
from dikkat.interop.parity import MAX_DIFFERENCE, check_parity, whole_folder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import CannotCreateError, DataError, UsageError
from dikkat_runtime.tasks.translator import Translator

transformers = pytest.importorskip("transformers", reason="needs Hugging Face transformers, of the extra [test]")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")

ODD_TEXTS = ["", "  two  spaces ", "ﬁne ½ Ⅷ", "日本 and €5", ">>fra<< Good morning.", "İstanbul’da", "a\u00a0b\u200bc"]


@pytest.fixture(scope="module", params=[False, True], ids=["shared", "separate"])
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with theirs, the run that was made of it, and the export of that."""
    folder = tmp_path_factory.mktemp("imported")
    theirs = marian_folder(folder / "theirs", separate=request.param, spread=0.4)
    assert run(["import", str(theirs), "--out", str(folder / "run")]) == 0
    assert run(["export", str(folder / "run"), "--to", "huggingface", "--out", str(folder / "out")]) == 0
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("trained") / "run", **MARIAN_MT, activation="silu")


def translations(folder: Path, texts: list[str]) -> list[str]:
    """Theirs, by greedy search."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        ids = model.generate(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, num_beams=1, max_new_tokens=40
        )
    return [str(text) for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]


def test_what_was_imported_is_written_bit_for_bit(imported: Path) -> None:
    states: list[dict[str, Any]] = [
        transformers.AutoModelForSeq2SeqLM.from_pretrained(imported / name).state_dict() for name in ("theirs", "out")
    ]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor, rtol=0, atol=0)
    for name in ("vocab.json", "target_vocab.json"):
        if (imported / "theirs" / name).exists():
            assert json.loads((imported / "out" / name).read_text()) == json.loads(
                (imported / "theirs" / name).read_text()
            )


def test_two_hundred_translations_of_the_export_are_those_of_the_original(imported: Path) -> None:
    texts = phrases(900)[0][700:]
    original = translations(imported / "theirs", texts)
    assert len(set(original)) > 5
    assert translations(imported / "out", texts) == original


def test_sentencepiece_cuts_as_by_the_original_models(imported: Path) -> None:
    for name, texts in zip(("source.spm", "target.spm"), phrases(200), strict=True):
        one, other = (
            sentencepiece.SentencePieceProcessor(model_file=str(imported / folder / name))
            for folder in ("theirs", "out")
        )
        for text in (*texts, *ODD_TEXTS):
            assert other.encode(text, out_type=str) == one.encode(text, out_type=str)


def test_the_export_is_imported_again(imported: Path, tmp_path: Path) -> None:
    assert run(["import", str(imported / "out"), "--out", str(tmp_path / "again")]) == 0
    weights = [TrainedTranslator.open(folder).weights for folder in (imported / "run", tmp_path / "again")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


@pytest.mark.nightly
def test_what_was_trained_with_these_settings_is_written(tmp_path: Path) -> None:
    translator = TrainedTranslator.open(trained_run(tmp_path / "run", **MARIAN_MT))
    assert export_huggingface(translator, tmp_path / "out", 200).largest_difference <= MAX_DIFFERENCE


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_run_of_ours_translates_alike(count: int, trained: Path, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(trained)
    parity = export_huggingface(translator, tmp_path / "out", count)
    assert (parity.sentences, parity.program) == (count, f"transformers {transformers.__version__}")
    assert parity.largest_difference <= MAX_DIFFERENCE
    texts = translator.samples(20)
    options = DecodingOptions(max_length_factor=0, max_length_offset=40)
    ours = Translator.load(trained, engine="torch").stream(texts, options, retry_loops=False)
    expected = [item.text for item in ours]
    assert len(set(expected)) > 10
    assert translations(tmp_path / "out", texts) == expected


def test_a_typed_mark_is_read_as_text(trained: Path, tmp_path: Path) -> None:
    export_huggingface(TrainedTranslator.open(trained), tmp_path / "out", 2)
    ours = Translator.load(trained).tokenizer
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("<eos> is typed", "<pad>", *filter(None, ODD_TEXTS)):
        assert theirs(text).input_ids == [*ours.encode(text), ours.eos_id]


def test_settings_that_do_not_fit_are_named_with_those_to_train_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random_run(tmp_path / "run", positions="rotary")
    assert run(["export", str(tmp_path / "run"), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "model.norm_placement = pre, model.positions = rotary;" in complaint
    assert "--set model.norm_placement=post --set model.positions=sinusoidal_halves" in complaint
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_another_text_or_logit_is_refused(trained: Path) -> None:
    translator = TrainedTranslator.open(trained)
    texts = translator.samples(5)
    right = translator.tokenizers[-1].decode_batch(translator.greedy(texts))
    assert "another text" not in right
    exact = translator.in_float64().logits
    assert check_parity(translator, "itself", lambda _: right, exact, texts).largest_difference == 0
    assert 0 < check_parity(translator, "itself", lambda _: right, translator.logits, texts).largest_difference < 1e-5
    wrong = [*right[:-1], "another text"]
    with pytest.raises(DataError, match=r"a frog translates .* to 'another text', not "):
        check_parity(translator, "a frog", lambda _: wrong, translator.logits, texts)
    with pytest.raises(DataError, match=r"logits that differ by 0\.001, more than 0\.0001"):
        check_parity(translator, "a frog", lambda _: right, lambda *ids: translator.logits(*ids) + 0.001, texts)
    with pytest.raises(DataError, match="differ by nan"):
        check_parity(translator, "a frog", lambda _: right, lambda *ids: translator.logits(*ids) * torch.nan, texts)


def test_nothing_is_left_of_an_export_that_computes_something_else(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = huggingface_export.their_weights

    def wrong(*arguments: Any) -> dict[str, torch.Tensor]:
        weights = right(*arguments)
        return weights | {"model.shared.weight": weights["model.shared.weight"] * 1.01}

    monkeypatch.setattr(huggingface_export, "their_weights", wrong)
    assert run(["export", str(trained), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 65
    assert "nothing was written" in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_a_damaged_run_or_a_full_folder_is_one_line(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in trained.iterdir():
        if file.is_file():
            (broken / file.name).write_bytes(file.read_bytes()[: 9999 if file.suffix == ".safetensors" else None])
    assert run(["export", str(broken), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 65
    assert "model.safetensors: damaged" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    with pytest.raises(CannotCreateError, match="is not an empty folder"), whole_folder(broken):
        pass
    with pytest.raises(UsageError, match="written in float32"):
        export(trained, "huggingface", tmp_path / "out", "int8")
