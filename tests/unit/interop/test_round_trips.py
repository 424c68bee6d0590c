"""A translator that goes from one form to the next, and back: the same ids, the same search, the same texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.unit.interop.ctranslate2_folders import written
from tests.unit.interop.marian_files import POST_NORM, marian_folder, marian_weights
from tests.unit.interop.test_marian_export import MARIAN
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import phrases

from dikkat.interop.ctranslate2.agreement import Checked, exported_files
from dikkat.interop.ctranslate2.reading import read_ctranslate2
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.translator import Translator

LINES = [*phrases(700)[0][680:], "日本 and €5", "  two  spaces ", "▁x <eos> <unk>"]


def unigram_run(out: Path, *, separate: bool = False) -> Path:
    """A run of pieces, which knows its languages and searches as Hugging Face does, with stacks of other depths."""
    shape = {**MARIAN, "encoder_layers": 3, "decoder_layers": 1}
    run = RunDirectory(random_run(out, {"kind": "unigram", "vocab_size": 600}, separate, **shape))
    with run.alone():
        settings = run.read_config()
        data = settings["data"] | {"source_language": "en", "target_language": "fr"}
        run.write_config({**settings, "data": data, "decoding": {"length_penalty": 0.8, "thorough": True}})
    return out


@pytest.mark.parametrize("separate", [False, True])
def test_trips_through_ctranslate2_add_no_entry_and_keep_ids_and_search(separate: bool, tmp_path: Path) -> None:
    path = unigram_run(tmp_path / "0", separate=separate)
    first = TrainedTranslator.open(path)
    for number in range(1, 4):
        folder = written(tmp_path / f"theirs{number}", exported_files(TrainedTranslator.open(path), "float32"))
        path = tmp_path / str(number)
        read_ctranslate2(folder).write(path, folder, "dikkat import")
        again = TrainedTranslator.open(path)
        assert [one.entries for one in again.tokenizers] == [one.entries for one in first.tokenizers]
        assert (again.length_penalty, again.thorough) == (0.8, True)
        for name, weight in first.weights.items():
            assert torch.equal(again.weights[name], weight)


def test_a_package_is_written_into_a_folder_that_is_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.interop.ctranslate2.agreement.find_spec", lambda _: None)
    path, out = unigram_run(tmp_path / "run"), tmp_path / "new" / "folder" / "en_fr.argosmodel"
    assert run_command(["export", str(path), "--to", "argos", "--out", str(out)]) == 0
    assert [file.name for file in out.parent.iterdir()] == [out.name]
    assert run_command(["import", str(out), "--out", str(tmp_path / "again")]) == 0


def test_a_run_that_does_not_know_its_languages_is_exported_after_what_the_refusal_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dikkat.interop.ctranslate2.agreement.find_spec", lambda _: None)
    theirs = marian_folder(tmp_path / "theirs", POST_NORM, marian_weights(POST_NORM))
    run, out = tmp_path / "run", tmp_path / "en_fr.argosmodel"
    assert run_command(["import", str(theirs), "--out", str(run)]) == 0
    export = ["export", str(run), "--to", "argos", "--out", str(out)]
    assert run_command(export) == 2
    told = capsys.readouterr().err
    assert "set data.source_language and data.target_language in its config.json" in told
    assert "remove its manifest.json" in told
    config = json.loads((run / "config.json").read_text())
    config["data"] |= {"source_language": "en", "target_language": "fr"}
    (run / "config.json").write_text(json.dumps(config))
    (run / "manifest.json").unlink()
    assert run_command(export) == 0
    assert len(list(Translator.load(run).stream(LINES[:2]))) == 2


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_damaged_file_of_a_run_is_not_exported(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = marian_folder(tmp_path / "theirs", POST_NORM, marian_weights(POST_NORM))
    assert run_command(["import", str(theirs), "--out", str(tmp_path / "run")]) == 0
    file = tmp_path / "run" / name
    whole = file.read_text()
    # a length penalty, or a piece: the run itself reads it as the folder would have it
    changed = whole.replace('"length_penalty": 1.0', '"length_penalty": 1.5').replace('"▁book"', '"▁bock"')
    assert len(changed) == len(whole)
    assert changed != whole
    file.write_text(changed)
    capsys.readouterr()
    assert run_command(["export", str(tmp_path / "run"), "--to", "marian", "--out", str(tmp_path / "out")]) == 65
    told = capsys.readouterr().err
    assert f"{file}: damaged: its content does not match its checksum" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_package_does_not_go_over_one_that_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = unigram_run(tmp_path / "run"), tmp_path / "en_fr.argosmodel"

    def checked(*_: object) -> Checked:
        out.write_text("theirs")
        return Checked("weights")

    monkeypatch.setattr("dikkat.interop.argos_package.check_export", checked)
    assert run_command(["export", str(path), "--to", "argos", "--out", str(out)]) == 73
    assert f"{out}: exists already; give another --out" in capsys.readouterr().err
    assert out.read_text() == "theirs"


@pytest.mark.nightly
def test_texts_are_the_same_after_every_step(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
    path, options = unigram_run(tmp_path / "0"), BeamOptions(beam_size=4, thorough=True)
    expected = [one.text for one in Translator.load(path).stream(LINES, options)]
    assert len(set(expected)) > 10
    for number, to in enumerate(("marian", "ctranslate2", "argos", "marian", "ctranslate2", "marian"), start=1):
        out = tmp_path / f"theirs{number}{'.argosmodel' if to == 'argos' else ''}"
        command = ["export", str(path), "--to", to, "--out", str(out), "--precision", "float32"]
        path = tmp_path / str(number)
        assert run_command(command) == run_command(["import", str(out), "--out", str(path)]) == 0
        assert [one.text for one in Translator.load(path).stream(LINES, options)] == expected
