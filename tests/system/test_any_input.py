"""Whatever stands in a file that a command reads: it ends well, or with one line and an exit code of the plan."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from tests.command_lines import run_without_dikkat
from tests.hostile_files import PIECES, WHOLE
from tests.runtime.runs import classifier_run, language_model_run, translator_run
from tests.unit.documents import samples

from dikkat_runtime.cli.main import run

PLANNED = frozenset((0, 2, 65, 66, 71, 73, 74, 75, 76))
MAX_LENGTH = 600
LINES = b"The small cat is sleeping.\nWhere are my keys?\n"
PAIRS = b"source\ttarget\nThe dog sleeps.\tLe chien dort.\nThe cat sees a dog.\tLe chat voit un chien.\n"
LABELLED = b"label\ttext\nyes\tThe dog sleeps.\nno\tWhere are my keys?\n"
SMALL = ("--set", "training.max_updates=1", "--set", "model.model_dim=8", "--set", "model.num_heads=1")
COMMANDS: dict[str, tuple[str, bytes]] = {
    "translate {t} {file} --beam 1": ("a.txt", LINES),
    "translate {t} {file} --out {out}.md --beam 1": ("a.po", samples.PO.encode()),
    "translate {t} {file} --out {out}.po --beam 1": ("a.po", samples.PO.encode()),
    "translate {t} {lines} --glossary {file} --beam 1": ("terms.tsv", b"dog\tchien\ncat\tchat|chatte\n"),
    "translate {t} {lines} --prefix {file} --beam 1": ("prefixes.txt", b"Le\nUn\n"),
    "classify {c} {file}": ("a.txt", LINES),
    "embed {l} {file}": ("a.txt", LINES),
    "serve --config {file}": ("serve.toml", b'port = 8001\nruns = ["a"]\ndrain = 5\n'),
    "translate-files {t} {file} --out {out} --estimate --workers 1": ("a.jsonl", b""),
    "data check {file}": ("a.jsonl", b'{"source": "The dog", "target": "Le chien"}\n'),
    "data check {file} --fix {out}.tsv": ("a.tsv", PAIRS),
    "data check {file} {lines}": ("a.txt", LINES),
    "evaluate {t} {file} --beam 1": ("a.tsv", PAIRS),
    "evaluate {c} {file}": ("a.tsv", LABELLED * 3),
    "train translator {file} --out {out}": ("a.tmx", samples.TMX.encode()),
    "train classifier {file} --out {out}": ("a.tsv", LABELLED),
    "train translator {none} --out {out} --config {file}": ("a.toml", b"[model]\nmodel_dim = 16\n"),
    "import {file} --out {out}": ("model.npz", b"PK\x03\x04"),
    "heads {t} {pairs} --gold {file}": ("gold.txt", b"0-0 1-1\n0-0 1-2\n"),
    "explain dog --vectors {file}": ("vectors.json", b'{"dog": [0.1, 0.2], "cat": [0.3, 0.4]}'),
    "data distil {t} {file} --out {out}.tsv --beam 1 --workers 1": ("a.txt", b""),
}
"""Each with an honest file of what it reads; those without any are given whole files alone."""
BY_DAY = 2


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    runs = {
        "t": translator_run(folder / "t"), "c": classifier_run(folder / "c"), "l": language_model_run(folder / "l"),
    }  # fmt: skip
    (folder / "lines.txt").write_bytes(LINES)
    (folder / "pairs.tsv").write_bytes(PAIRS)
    return {**runs, "lines": folder / "lines.txt", "pairs": folder / "pairs.tsv", "none": folder / "none.tsv"}


def hostile_file(honest: bytes, seed: int) -> bytes:
    generator = random.Random(seed)
    if not honest or seed % 2:
        return generator.choice(list(WHOLE.values()))
    content = bytearray(honest)
    for _ in range(generator.randint(1, 4)):
        position = generator.randrange(len(content) + 1)
        content[position:position] = generator.choice(PIECES)
    return bytes(content)


def check(command: str, data: bytes, paths: dict[str, Path], folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name, _ = COMMANDS[command]
    file = folder / name
    file.write_bytes(data)
    arguments = command.format(**paths, file=file, out=folder / "out").split()
    if arguments[0] == "train":
        arguments += SMALL
    capfd.readouterr()
    # the readers of every other file are those of the runtime alone
    is_alone = len(data) % 2 and arguments[0] in ("translate", "classify", "embed")
    code = run_without_dikkat(arguments) if is_alone else run(arguments)
    told = capfd.readouterr().err
    assert code in PLANNED, told
    assert "Traceback" not in told
    if code:
        assert len(told.rstrip("\n").rpartition("\n")[2]) < MAX_LENGTH + len(str(folder))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reads_or_refuses_any_file(
    command: str, paths: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(BY_DAY):
        folder = tmp_path / str(number)
        folder.mkdir()
        seed = len(command) * BY_DAY + number
        check(command, hostile_file(COMMANDS[command][1], seed), paths, folder, capfd)


@pytest.mark.nightly
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reads_or_refuses_hundreds_of_files(
    command: str, paths: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [*WHOLE.values(), *(hostile_file(COMMANDS[command][1], seed) for seed in range(200))]
    for number, data in enumerate(files):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(command, data, paths, folder, capfd)


@pytest.mark.parametrize(
    "command",
    [
        "translate {t} {file} --out {out}.po", "translate {t} {lines} --glossary {file}", "serve --config {file}",
        "train translator {none} --out {out} --config {file}", "import {file} --out {out}",
        "translate-files {t} {file} --out {out}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_and_not_waited_for(
    command: str, kind: str, paths: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pipe to which nobody writes would be waited for without end."""
    file = tmp_path / ("a.npz" if "import" in command else "a.po")
    os.mkfifo(file) if kind == "pipe" else file.mkdir()
    arguments = command.format(**paths, file=file, out=tmp_path / "out").split()
    assert run(arguments) in (2, 65, 66)
    told = capfd.readouterr().err.strip().split("\n")
    assert str(file) in told[-1]


def test_a_failure_that_nobody_foresaw_is_one_line(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from dikkat_runtime.tasks.translator import Translator

    def told(error: Exception) -> tuple[int, str]:
        def fails(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(Translator, "load", fails)
        code = run(["translate", str(paths["t"]), str(paths["lines"])])
        return code, capfd.readouterr().err

    assert told(ValueError("edits\noverlap")) == (
        70,
        "dikkat: internal error (ValueError: edits overlap); this is a bug of dikkat; for the traceback:"
        f" dikkat --debug translate {paths['t']} {paths['lines']}\n",
    )
    assert told(MemoryError())[0] == 71
    assert told(FileNotFoundError(2, "No such file", "x"))[0] == 66
    with pytest.raises(RecursionError) as caught:
        json.loads("[" * 200_000)
    assert told(caught.value)[0] == 65
