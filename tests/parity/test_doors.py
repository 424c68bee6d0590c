"""One answer and one refusal at every door: both commands, both libraries, the server, documents, pages, many files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_lines import run_without_dikkat as runtime_command
from tests.runtime.runs import classifier_run, finished, language_model_run, translator_run

import dikkat
import dikkat_runtime
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_metadata
from dikkat.web.opening import open_for_web
from dikkat_runtime.cli.main import run as dikkat_command
from dikkat_runtime.engine.native import EncoderKernel
from dikkat_runtime.engine.options import DecodingOptions, GenerationOptions, SamplingOptions
from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.shards.models import open_model
from dikkat_runtime.shards.work import Job
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.embedder import CrossEmbedder
from dikkat_runtime.tasks.generator import Generator

Refusal = tuple[int, str]
Door = Callable[[Path], object]

TEXT = "Where are my keys?"
LIBRARIES: dict[str, list[Door]] = {
    "translator": [
        lambda run: dikkat.Translator.load(run).translate([TEXT]),
        lambda run: dikkat_runtime.Translator.load(run).translate([TEXT]),
        lambda run: dikkat_runtime.Translator.load(run, precision="int8").translate([TEXT], SamplingOptions(seed=3)),
        lambda run: dikkat.Translator.load(run, engine="torch").translate([TEXT]),
        lambda run: dikkat.Translator.load(run, engine="torch").translate([TEXT], DecodingOptions(scores=False)),
        lambda run: list(dikkat.Embedder.load(run).sentences([TEXT])),
        lambda run: list(dikkat_runtime.Embedder.load(run).sentences([TEXT])),
        lambda run: list(CrossEmbedder.load(run).sentences([TEXT])),
        lambda run: Aligner.load(run).attend(TEXT, TEXT),
        lambda run: open_model(Job(run=run, task="translate")).answers([TEXT]),
        lambda run: open_model(Job(run=run, task="embed")).answers([TEXT]),
    ],
    "classifier": [
        lambda run: dikkat.Classifier.load(run).classify([TEXT]),
        lambda run: dikkat_runtime.Classifier.load(run).classify([TEXT]),
        lambda run: dikkat.Classifier.load(run, engine="torch").classify([TEXT]),
        lambda run: list(dikkat.Embedder.load(run).sentences([TEXT])),
        lambda run: list(dikkat_runtime.Embedder.load(run).sentences([TEXT])),
        lambda run: open_model(Job(run=run, task="classify")).answers([TEXT]),
    ],
    "lm": [
        lambda run: dikkat.LanguageModel.load(run).generate([TEXT]),
        lambda run: dikkat.LanguageModel.load(run, engine="torch").generate([TEXT]),
        lambda run: Generator.load(run).generate([TEXT], options=GenerationOptions(temperature=0.0)),
        lambda run: list(dikkat.Embedder.load(run).sentences([TEXT])),
        lambda run: list(dikkat_runtime.Embedder.load(run).sentences([TEXT])),
    ],
}
"""What opens a run of each kind from Python and computes with it."""
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
    err = capsys.readouterr().err
    # the engine, where it was reached, was named before
    assert "Traceback" not in err
    assert err.count("\n") <= 2, err
    return code, re.sub(r"^dikkat(-runtime)?: ", "", err.splitlines()[-1])


def of_library(door: Door, run: Path) -> Refusal:
    with pytest.raises(DikkatError) as caught:
        door(run)
    return caught.value.exit_code, str(caught.value)


def refusals(kind: str, run: Path, capsys: pytest.CaptureFixture[str]) -> set[Refusal]:
    """What each door that computes says of a run that it must not use."""
    word, *options = COMMANDS[kind]
    lines = run.with_suffix(".txt")
    lines.write_text("Yes.\n", encoding="utf-8")
    input_ = ["Yes."] if kind == "lm" else [str(lines)]
    calls = [[word, str(run), *input_, *options]]
    if kind == "translator":
        document = shutil.copy(lines, run.with_suffix(".md"))
        calls.append([word, str(run), str(document), "--out", str(run.with_suffix(".out"))])
    commands = [of_command(command, call, capsys) for call in calls for command in (dikkat_command, runtime_command)]
    return {*commands, *(of_library(door, run) for door in LIBRARIES[kind])}


def refusals_at_loading(run: Path, capsys: pytest.CaptureFixture[str]) -> set[Refusal]:
    """What the server and the makers of pages say of a run that they must not load."""
    page = of_command(dikkat_command, ["page", str(run), "--out", str(run.with_suffix(".html"))], capsys)
    return {page, of_library(lambda run: Catalog([f"en-tr={run}"]), run), of_library(open_for_web, run)}


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
    ((code, line),) = refusals(kind, run, capsys) | refusals_at_loading(run, capsys)
    assert code == 65
    assert line.startswith(f"{run}/")
    assert "damaged" in line
    assert "restore" in line


@pytest.mark.parametrize("command", [dikkat_command, runtime_command])
def test_many_files_refuse_a_touched_run_with_the_same_line(
    command: Callable[[list[str]], int], runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, lines = tmp_path / "run", tmp_path / "lines.txt"
    shutil.copytree(runs["translator"], run)
    edit_settings(run)
    lines.write_text("Yes.\n", encoding="utf-8")
    code, line = of_command(command, ["translate-files", str(run), str(lines), "--out", str(tmp_path / "out")], capsys)
    assert (code, line) == of_library(dikkat_runtime.Translator.load, run)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", list(LIBRARIES))
def test_finite_weights_that_overflow_are_one_line_at_every_door(
    kind: str, runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs[kind], tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    huge = {name: tensor.sign() * 3e38 for name, tensor in run.load_weights().items()}
    run.save_weights(huge, read_metadata(run.weights))
    expected = (
        f"{run.weights}: damaged: computing with these weights gives numbers that are not finite; restore the file"
    )
    assert refusals(kind, run.path, capsys) == {(65, expected)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_server_does_not_load_a_translator_that_overflows(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["translator"], tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    run.save_weights({name: 0 * weights + 3e38 for name, weights in run.load_weights().items()}, {"step": "1"})
    with pytest.raises(DataError, match="numbers that are not finite"):
        Catalog([f"en-tr={run.path}"])


def test_every_door_classifies_by_the_kernel_of_whole_encoders(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Library, both commands, many files and the server; the torch engine alone does without."""
    counts, run, encode = [0], runs["classifier"], EncoderKernel.run

    def counted(self: EncoderKernel, *arguments: Any, **options: Any) -> Any:
        counts[-1] += 1
        return encode(self, *arguments, **options)

    monkeypatch.setattr(EncoderKernel, "run", counted)
    lines = tmp_path / "lines.txt"
    lines.write_text(TEXT, encoding="utf-8")
    commands = [partial(command, ["classify", str(run), str(lines)]) for command in (dikkat_command, runtime_command)]
    served = Catalog([f"one={run}"]).models[0].model
    doors: list[Callable[[], object]] = [
        *(partial(door, run) for door in LIBRARIES["classifier"]),
        *commands,
        partial(served.classify, [TEXT]),
    ]
    for door in doors:
        counts.append(0)
        door()
    by_torch = [number for number, count in enumerate(counts[1:]) if not count]
    assert (len(doors), by_torch) == (9, [2])
