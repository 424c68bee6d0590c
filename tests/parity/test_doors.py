"""One answer and one refusal at every door: both commands, both libraries, the server, documents, pages, many files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.runs import classifier_run, finished, language_model_run, translator_run

import dikkat
import dikkat_runtime
from dikkat.cli.main import run as dikkat_command
from dikkat.web.opening import open_for_web
from dikkat_runtime.cli.main import run as runtime_command
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.server.catalog import Catalog
from dikkat_runtime.shards.job import Job
from dikkat_runtime.shards.models import open_model
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.cross_embedder import CrossEmbedder
from dikkat_runtime.tasks.generator import Generator

Refusal = tuple[int, str]
Door = Callable[[Path], object]

LIBRARIES: dict[str, list[Door]] = {
    "translator": [
        dikkat.Translator.load,
        dikkat_runtime.Translator.load,
        lambda run: dikkat.Translator.load(run, engine="torch"),
        dikkat.Embedder.load,
        dikkat_runtime.Embedder.load,
        CrossEmbedder.load,
        Aligner.load,
        lambda run: open_model(Job(run=run, task="translate")),
        lambda run: open_model(Job(run=run, task="embed")),
    ],
    "classifier": [
        dikkat.Classifier.load,
        dikkat_runtime.Classifier.load,
        lambda run: dikkat.Classifier.load(run, engine="torch"),
        dikkat.Embedder.load,
        lambda run: open_model(Job(run=run, task="classify")),
    ],
    "lm": [dikkat.LanguageModel.load, Generator.load, dikkat.Embedder.load, dikkat_runtime.Embedder.load],
}
"""What opens a run of each kind from Python; the server and pages open all."""
COMMANDS = {"translator": ["translate"], "classifier": ["classify"], "lm": ["generate", "--max-tokens", "2"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One finished run of each kind. Look, do not touch; else copy it."""
    folder = tmp_path_factory.mktemp("doors")
    languages = ("en", "tr")
    return {
        "translator": finished(translator_run(folder / "mt", separate=True, languages=languages)),
        "classifier": finished(classifier_run(folder / "cl")),
        "lm": finished(language_model_run(folder / "lm")),
    }


def of_command(command: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]) -> Refusal:
    code = command(words)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return code, re.sub(r"^dikkat(-runtime)?: ", "", err.removesuffix("\n"))


def of_library(door: Door, run: Path) -> Refusal:
    with pytest.raises(DikkatError) as caught:
        door(run)
    return caught.value.exit_code, str(caught.value)


def refusals(kind: str, run: Path, capsys: pytest.CaptureFixture[str]) -> set[Refusal]:
    """What each door says of a run that it must not open."""
    word, *options = COMMANDS[kind]
    lines = run.with_suffix(".txt")
    lines.write_text("Yes.\n", encoding="utf-8")
    input_ = ["Yes."] if kind == "lm" else [str(lines)]
    commands = [
        of_command(command, [word, str(run), *input_, *options], capsys)
        for command in (dikkat_command, runtime_command)
    ]
    out = run.with_suffix(".out")
    if kind == "translator":
        for command in (dikkat_command, runtime_command):
            commands.append(of_command(command, [word, str(run), str(lines), "--out", str(out)], capsys))
    if kind != "lm":
        for command in (dikkat_command, runtime_command):
            commands.append(of_command(command, ["translate-files", str(run), str(lines), "--out", str(out)], capsys))
    commands.append(of_command(dikkat_command, ["page", str(run), "--out", str(out)], capsys))
    served: Door = lambda run: Catalog([f"en-tr={run}"])  # noqa: E731
    return {*commands, *(of_library(door, run) for door in (*LIBRARIES[kind], served, open_for_web))}


def edit_settings(run: Path) -> None:
    path = run / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["model"]["num_heads"] = 1
    path.write_text(json.dumps(settings), encoding="utf-8")


def swap_ids(run: Path, name: str = "tokenizer.json") -> None:
    path = run / name
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def swap_target_ids(run: Path) -> None:
    swap_ids(run, "tokenizer.target.json")


def change_weights(run: Path) -> None:
    path = run / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def change_temperature(run: Path) -> None:
    path = run / "metrics.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"temperature": 0.7', '"temperature": 0.9'), encoding="utf-8"
    )


TOUCHED = {
    "translator": [edit_settings, swap_ids, swap_target_ids, change_weights],
    "classifier": [edit_settings, swap_ids, change_weights, change_temperature],
    "lm": [edit_settings, swap_ids, change_weights],
}


@pytest.mark.parametrize(("kind", "touch"), [(kind, touch) for kind, own in TOUCHED.items() for touch in own])
def test_a_run_that_was_touched_is_refused_by_every_door_with_one_line(
    kind: str,
    touch: Callable[[Path], None],
    runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs[kind], run)
    touch(run)
    ((code, line),) = refusals(kind, run, capsys)
    assert code == 65
    assert line.startswith(f"{run}/")
    assert "damaged" in line
    assert "restore" in line
