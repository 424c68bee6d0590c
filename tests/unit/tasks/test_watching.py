"""The page that follows a training run: it tells what is learned, and changes nothing of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.train import train
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.tasks.translation.watch import TrainingPage, train_watched
from dikkat_runtime.errors import CannotCreateError, UsageError

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "encoder_layers": 1, "decoder_layers": 2},
    "tokenizer": {"vocab_size": 310},
    "training": {"tokens_per_batch": 200, "max_epochs": 3, "validations": 3, "precision": "float32"},
}


class Watcher:
    """Keeps the rows, and `page` as it was after each validation."""

    def __init__(self, page: Path | None = None) -> None:
        self.page = page
        self.rows: list[dict[str, float]] = []
        self.pages: list[str] = []
        self.notes: list[str] = []

    def prepared(self, config: object, report: object, facts: object) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, report: object) -> None:
        if self.page is not None and len(self.pages) < len(self.rows):
            self.pages.append(self.page.read_text(encoding="utf-8"))

    def validation(self, row: dict[str, float], found: object, is_best: bool) -> None:
        self.rows.append(row)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "toy.en-eo.tsv"
    words = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
    rows = [(f"the {a} sees the <b>{b}</b>", f"{b}o vidas {a}o") for a in words for b in words if a != b]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def watched(data: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, Watcher]:
    folder = tmp_path_factory.mktemp("watched")
    watcher = Watcher(page := folder / "watch.html")
    request = TrainRequest([data], settings=SETTINGS)
    assert train_watched(TranslatorJob(request), folder / "run", watcher, page=page).finished
    return RunDirectory.open(folder / "run"), watcher


def tensors(run: RunDirectory) -> dict[str, bytes]:
    """Weights and optimizer, of the run and of its checkpoints."""
    return {str(path.relative_to(run.path)): path.read_bytes() for path in run.path.rglob("*.safetensors")}


def content(page: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    shown: dict[str, Any] = json.loads(data)["training"]
    return shown


def reloads(page: str) -> bool:
    return '<meta http-equiv="refresh" content="5">' in page


def test_a_watched_run_is_the_unwatched_one_bit_for_bit(
    data: str, watched: tuple[RunDirectory, Watcher], tmp_path: Path
) -> None:
    run, watcher = watched
    train(TranslatorJob(TrainRequest([data], settings=SETTINGS)), tmp_path / "run", alone := Watcher())
    other = RunDirectory.open(tmp_path / "run")
    assert len(tensors(run)) == 1 + 2 * SETTINGS["training"]["validations"] - 2
    assert tensors(run) == tensors(other)
    timeless = [[{**row, "seconds": 0.0} for row in item.rows] for item in (watcher, alone)]
    assert timeless[0] == timeless[1]


def test_the_page_follows_and_then_stands_still(watched: tuple[RunDirectory, Watcher]) -> None:
    run, watcher = watched
    assert watcher.page is not None
    pages = [*watcher.pages, watcher.page.read_text(encoding="utf-8")]
    assert [reloads(page) for page in pages] == [True, True, False]
    rows = [[row["step"], row["valid_loss"]] for row in run.read_metrics()]
    assert [content(page)["losses"] for page in pages] == [rows[:1], rows[:2], rows]
    last = [content(page)["updates"][-1] for page in pages]
    assert last == sorted(last)
    assert last[-1] == rows[-1][0]


def test_a_page_that_cannot_be_written_any_more_is_said_and_training_goes_on(
    watched: tuple[RunDirectory, Watcher], tmp_path: Path
) -> None:
    folder, watcher = tmp_path / "folder", Watcher()
    folder.mkdir()
    page = TrainingPage(folder / "watch.html", watched[0].path, watcher)
    folder.rmdir()
    page.write(running=True)
    assert watcher.notes == [
        f"{folder}/watch.html: cannot be written: the folder {folder} does not exist; create it first;"
        " training goes on without its page"
    ]


def test_a_stopped_run_leaves_a_page_that_stands_still(data: str, tmp_path: Path) -> None:
    watcher = Watcher()
    page = tmp_path / "watch.html"
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    outcome = train_watched(job, tmp_path / "run", watcher, page=page, should_stop=lambda: len(watcher.rows) == 1)
    assert not outcome.finished
    shown = page.read_text(encoding="utf-8")
    assert len(content(shown)["losses"]) == 1
    assert not reloads(shown)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("watch.txt", UsageError, r"is written as \.html or \.htm, not \.txt"),
        ("nowhere/watch.html", CannotCreateError, "the folder .* does not exist; create it first"),
    ],
)
def test_a_bad_place_is_known_before_anything_is_made(
    name: str, error: type[Exception], message: str, data: str, tmp_path: Path
) -> None:
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    with pytest.raises(error, match=message):
        train_watched(job, tmp_path / "run", Watcher(), page=tmp_path / name)
    assert list(tmp_path.iterdir()) == []
