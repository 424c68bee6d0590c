"""The call of an exported README, as it is printed, over SentencePiece: a MarianMT whose sides have a model each."""

from __future__ import annotations

import io
import os
import zipfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import marian_folder, phrases

from dikkat.interop.argos_package import package_files
from dikkat.interop.ctranslate2 import agreement
from dikkat.interop.ctranslate2.agreement import by_ctranslate2
from dikkat.interop.sentencepiece_file import pieces_of, sentencepiece_file
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.special_tokens import UNK_ID

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which the extra [test] brings")
pytest.importorskip("transformers", reason="needs Hugging Face transformers, which the extra [test] brings")
pytestmark = pytest.mark.peer

LINES = phrases(30)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("readme")
    assert run_command(["import", str(marian_folder(home / "theirs")), "--out", str(home / "run")]) == 0
    return home / "run"


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    out = run.parent / "out"
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(out)]) == 0
    return out


def as_printed(folder: Path, text: str) -> str:
    """What the Python of a README prints of a text, searched greedily, in the folder above."""
    code = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    shown, before = io.StringIO(), Path.cwd()
    os.chdir(folder.parent)
    try:
        with redirect_stdout(shown):
            exec(code.replace("…", text).replace("beam_size=5", "beam_size=1, min_decoding_length=0"), {})
    finally:
        os.chdir(before)
    return shown.getvalue().removesuffix("\n")


def test_a_text_with_pieces_of_the_source_is_printed_as_the_run_writes_it(run: Path, exported: Path) -> None:
    translator = TrainedTranslator.open(run)
    assert translator.vocabularies == "shared_ids"
    printed = [as_printed(exported, text) for text in LINES[:8]]
    ours = by_ctranslate2(translator, exported, LINES[:8], "float32")
    # it may write more tokens than a sample does
    assert all(text.strip().startswith(own.strip()) for text, own in zip(printed, ours, strict=True))
    assert not any("▁" in text for text in printed)
    own = {piece.removeprefix("\uffff") for piece in translator.tokenizers[1].entries if piece.startswith("\uffff")}
    assert any(piece.strip("▁") in text for piece in own if len(piece) > 4 for text in printed)


def test_the_one_model_of_a_package_joins_what_is_written(run: Path, tmp_path: Path) -> None:
    translator = TrainedTranslator.open(run)
    files = package_files(translator, "float32")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    (pieces,) = (content for name, content in files.items() if name.endswith("/sentencepiece.model"))
    model: Any = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    source: Any = sentencepiece.SentencePieceProcessor(model_file=str(run.parent / "theirs" / "source.spm"))
    ours, entries = translator.tokenizers[1], translator.tokenizers[1].entries
    for text in phrases(60)[1]:
        ids = [number for number in ours.encode(text) if number != UNK_ID]
        assert model.decode([entries[number] for number in ids]) == ours.decode(ids)
    for text in LINES:
        # what it cuts by stays as it was
        assert model.encode(text, out_type=str) == source.encode(text, out_type=str)


def test_the_readme_says_that_a_source_may_begin_with_a_mark(exported: Path) -> None:
    readme = (exported / "README.md").read_text()
    assert 'such as `>>fra<<`, which is a token of its own and not cut: `[">>fra<<", *tokens]`' in readme


def test_turkish_in_lower_case_is_exported_and_cut_as_the_readme_says(tmp_path: Path) -> None:
    run = random_run(tmp_path / "run", {"kind": "bpe", "lowercase": True})
    directory = RunDirectory(run)
    with directory.alone():
        settings = directory.read_config()
        data = settings["data"] | {"source_language": "tr", "target_language": "fr"}
        directory.write_config({**settings, "data": data})
    out = tmp_path / "out"
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(out)]) == 0
    assert "compose a text (NFC), and write `I` as `ı` and `İ` as `i` first" in (out / "README.md").read_text()
    text = "Is the IDEA I\u0307N İZMİR?"
    translator = TrainedTranslator.open(run)
    (ours,) = by_ctranslate2(translator, out, [text], "float32")
    composed = normalize("NFC", text).replace("İ", "i").replace("I", "ı")
    assert as_printed(out, composed).startswith(ours)
    assert ours != by_ctranslate2(translator, out, [composed.replace("ı", "i")], "float32")[0]
    assert run_command(["import", str(out), "--out", str(tmp_path / "again")]) == 0
    again = TrainedTranslator.open(tmp_path / "again")
    assert again.tokenizers[0].encode(text) == translator.tokenizers[0].encode(text)


def test_a_tokenizer_that_writes_something_else_is_found_out(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = agreement.tokenizer_files

    def wrong(translator: TrainedTranslator) -> dict[str, bytes]:
        files = right(translator)
        settings = translator.tokenizer_settings[1]
        kept = {**settings, "pre_tokenizer": {"pretokenizers": [{"prepend_scheme": "never"}]}}
        return {**files, "target.spm": sentencepiece_file(pieces_of(settings), kept)}

    monkeypatch.setattr(agreement, "tokenizer_files", wrong)
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 65
    assert "the exported tokenizer writes ' " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
