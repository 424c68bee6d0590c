"""A run that was exported for the runtime answers as the run does, at every door, and holds nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.parity.test_doors import COMMANDS, edit_settings, of_command, of_library, swap_ids
from tests.runtime.runs import SENTENCES, classifier_run, finished, language_model_run, translator_run

import dikkat
import dikkat_runtime
from dikkat.interop.runtime_export import export_runtime
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import encode_tensors, quantize_rows
from dikkat_runtime.cli.main import run as dikkat_command
from dikkat_runtime.cli.main import run as runtime_command
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.shortlist import OWNER, SHORTLIST
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.weights import read_checksum, read_weights
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.corrections import Corrections
from dikkat_runtime.tasks.embedder import Embedder

LINES = [line for line in SENTENCES if line]
KINDS = ("translator", "classifier", "lm")
MAKES: dict[str, Callable[[Path], Path]] = {
    "translator": lambda path: translator_run(path, separate=True, languages=("en", "tr")),
    "classifier": classifier_run,
    "lm": language_model_run,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One finished run of each kind, with texts and a checkpoint. Look, do not touch; else copy it."""
    folder = tmp_path_factory.mktemp("exported")
    made = {kind: MAKES[kind](folder / kind) for kind in KINDS}
    for path in made.values():
        run = RunDirectory(path)
        weights = run.load_weights()
        run.save_checkpoint(1, {"model": weights, "optimizer": {f"m.{name}": one for name, one in weights.items()}}, {})
        (path / "held_out").mkdir()
        (path / "held_out" / "test.source.txt").write_text("A secret.\n", encoding="utf-8")
        finished(path)
        Corrections(path).add("Yes.", "Evet!")
    return made


def answer_of_library(kind: str, run: Path, precision: PrecisionName) -> list[str]:
    if kind == "translator":
        return [item.text for item in dikkat.Translator.load(run, precision).translate(LINES)]
    if kind == "classifier":
        return [
            f"{item.label} {item.probability:.5f}" for item in dikkat.Classifier.load(run, precision).classify(LINES)
        ]
    model = dikkat.LanguageModel.load(run, precision)
    return [one.text for (one,) in model.generate(LINES, options=GenerationOptions(temperature=0.0, max_tokens=8))]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_door_gives_the_answer_of_the_run(
    kind: str, precision: PrecisionName, runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out, lines = runs[kind], tmp_path / "out", tmp_path / "lines.txt"
    words = ["export", str(run), "--to", "runtime", "--out", str(out), "--precision", precision, "--with-corrections"]
    assert dikkat_command(words) == 0
    assert f"wrote {out} ({precision})" in capsys.readouterr().err
    assert answer_of_library(kind, out, "auto") == answer_of_library(kind, run, precision)
    lines.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    word, *options = COMMANDS[kind]
    given = [LINES[0]] if kind == "lm" else [str(lines)]
    texts = set()
    for command in (dikkat_command, runtime_command):
        for where, asked in ((run, ["--precision", precision]), (out, [])):
            assert command([word, str(where), *given, *options, *asked]) == 0
            texts.add(capsys.readouterr().out)
    assert len(texts) == 1, texts
    assert ("Evet!" in texts.pop()) == (kind == "translator")
    (served,) = Catalog([f"en-tr={out}"], precision="auto").models
    assert served.model.info.precision == precision
    before, after = (Embedder.load(run, precision), Embedder.load(out, "auto"))
    np.testing.assert_allclose(
        np.stack(list(after.stream(LINES))), np.stack(list(before.stream(LINES))), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_texts_checkpoints_and_corrections_stay_behind(kind: str, runs: dict[str, Path], tmp_path: Path) -> None:
    run, out = runs[kind], tmp_path / "out"
    assert export_runtime(run, out, "auto", with_corrections=False) == "float32"
    written = {path.name for path in out.rglob("*")}
    own = {"translator": {"tokenizer.target.json"}, "classifier": {"metrics.jsonl"}, "lm": set[str]()}
    assert written == {"config.json", "tokenizer.json", "model.safetensors", "card.md", "manifest.json"} | own[kind]
    listed = set(json.loads((out / "manifest.json").read_text(encoding="utf-8"))["files"])
    assert listed == written - {"manifest.json", "model.safetensors"}, "the weights are signed by themselves"
    assert read_checksum(out / "model.safetensors") == read_checksum(run / "model.safetensors")


@pytest.mark.parametrize("touch", [edit_settings, swap_ids])
def test_an_export_that_was_touched_is_refused_at_both_commands(
    touch: Callable[[Path], None], runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, lines = tmp_path / "out", tmp_path / "lines.txt"
    export_runtime(runs["translator"], out, "int8", with_corrections=False)
    lines.write_text("Yes.\n", encoding="utf-8")
    touch(out)
    refusals = {
        of_command(command, ["translate", str(out), str(lines)], capsys)
        for command in (dikkat_command, runtime_command)
    }
    ((code, line),) = refusals | {of_library(dikkat_runtime.Translator.load, out)}
    assert code == 65
    assert "damaged" in line


def test_a_damaged_or_unfinished_run_and_a_folder_that_is_there_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = Path(shutil.copytree(runs["translator"], tmp_path / "run")), tmp_path / "out"
    words = ["export", str(run), "--to", "runtime", "--out", str(out)]
    swap_ids(run)
    code, line = of_command(dikkat_command, words, capsys)
    assert (code, out.exists()) == (65, False)
    assert line.startswith(f"{run}/tokenizer.json: damaged")
    for is_listed in (True, False):
        (run / "tokenizer.json").unlink(missing_ok=True)
        if not is_listed:
            (run / "manifest.json").unlink()
        missing = f"{run}/tokenizer.json: is missing from the run; restore it from a copy"
        assert of_command(dikkat_command, words, capsys) == (66, missing)
    unfinished = translator_run(tmp_path / "unfinished")
    words[1] = str(unfinished)
    assert of_command(dikkat_command, words, capsys) == (66, f"{unfinished}: is not finished; train on with --resume")
    out.mkdir()
    (out / "mine").write_text("mine", encoding="utf-8")
    words[1] = str(runs["translator"])
    assert of_command(dikkat_command, words, capsys) == (73, f"{out}: is not an empty folder; give another --out")
    words[3:4] = ["web", "--with-corrections"]
    words[-1] = str(tmp_path / "web")
    assert of_command(dikkat_command, words, capsys) == (2, "--with-corrections is for --to runtime; leave it out")


def test_weights_in_eight_bits_are_those_that_the_native_engine_computes_with(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    run, out = runs["translator"], tmp_path / "out"
    export_runtime(run, out, "int8", with_corrections=False)
    before, after = read_weights(run / "model.safetensors"), read_weights(out / "model.safetensors")
    assert before.keys() == after.keys()
    for name, array in before.items():
        if array.ndim != 2 or name.endswith(("embedding.weight", "output_weight")):
            np.testing.assert_array_equal(after[name], array)
            continue
        first, again = quantize_rows(array), quantize_rows(after[name])
        np.testing.assert_array_equal(again.steps, first.steps)
        np.testing.assert_allclose(again.scale, first.scale, rtol=2e-7)
    with pytest.raises(UsageError, match="in eight bits, with which only the native engine computes"):
        dikkat.Translator.load(out, engine="torch")


def test_a_shortlist_is_for_the_weights_that_it_goes_with(runs: dict[str, Path], tmp_path: Path) -> None:
    run, out = Path(shutil.copytree(runs["translator"], tmp_path / "run")), tmp_path / "out"
    config: Any = RunDirectory(run).read_config()["model"]
    ids = np.arange(EOS_ID, config["target_vocab_size"], dtype=np.int32)
    arrays = {"always": ids[:40], "starts": np.zeros(config["vocab_size"] + 1, np.int32), "words": ids[:0]}
    notes = {OWNER: read_checksum(run / "model.safetensors")}
    (run / SHORTLIST).write_bytes(encode_tensors({name: torch.from_numpy(one) for name, one in arrays.items()}, notes))
    export_runtime(run, out, "int8", with_corrections=True)
    assert dikkat.Translator.load(out).info.has_shortlist
    assert answer_of_library("translator", out, "int8") == answer_of_library("translator", run, "int8")
