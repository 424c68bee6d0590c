"""Runs whose vocabulary of pieces was learned here, written for programs that cut a text by SentencePiece."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.interop.trained_runs import MARIAN_MT, random_run

from dikkat.interop.argos_package import export_argos
from dikkat.interop.ctranslate2.writing import export_ctranslate2
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.huggingface_export import export_huggingface
from dikkat.interop.importing import read_foreign
from dikkat.interop.parity import MAX_DIFFERENCE
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.text.tokenizer import Tokenizer

pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")

LANGUAGES = {"source_language": "en", "target_language": "fr"}
TEXTS = ["  two  spaces ", "日本 and €5", "İstanbul’da 2024", "a\u00a0b\u200bc"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = random_run(tmp_path_factory.mktemp("unigram") / "run", {"kind": "unigram", "vocab_size": 900}, **MARIAN_MT)
    run = RunDirectory(out)
    with run.alone():
        settings = run.read_config()
        run.write_config({**settings, "data": {**settings["data"], **LANGUAGES}})
    return out


@pytest.mark.nightly
def test_marianmt_translates_alike(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs Hugging Face transformers, of the extra [test]")
    parity = export_huggingface(TrainedTranslator.open(trained), tmp_path / "out", 20)
    assert parity.program.startswith("transformers ")
    assert parity.sentences == 20
    assert parity.largest_difference <= MAX_DIFFERENCE


@pytest.mark.nightly
def test_ctranslate2_translates_alike(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs CTranslate2, of the extra [test]")
    checked = export_ctranslate2(trained, tmp_path / "out", "float32")
    assert (checked.how, checked.sentences) == ("texts", 200)


@pytest.mark.nightly
def test_a_package_of_argos_cuts_alike(trained: Path, tmp_path: Path) -> None:
    export_argos(trained, tmp_path / "out.argosmodel", "float32")
    found = read_foreign(tmp_path / "out.argosmodel")
    assert isinstance(found, ForeignTranslator)
    own, theirs = Tokenizer.load(trained / "tokenizer.json"), found.tokenizers[0]
    for text in TEXTS:
        assert [own.entries[number] for number in own.encode(text)] == [
            theirs.entries[number] for number in theirs.encode(text)
        ]
        assert theirs.decode(theirs.encode(text)) == text
