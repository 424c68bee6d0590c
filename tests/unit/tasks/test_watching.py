"""The page that follows a training run: it tells what is learned, and changes nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.explain.report.inspection import Seen, seen

from dikkat.explain.report.run_page import Followed
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.train import train
from dikkat.tasks.translation import watch as watching
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.tasks.translation.watch import TrainingPage, train_watched
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import CannotCreateError, UsageError
from dikkat_runtime.tasks.translator import Translator

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
        self.pages: list[Seen] = []
        self.notes: list[str] = []

    def prepared(self, config: object, report: object, facts: object) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, report: object) -> None:
        if self.page is not None and len(self.pages) < len(self.rows):
            self.pages.append(seen(self.page.read_text(encoding="utf-8")))

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
    pages = [*watcher.pages, seen(watcher.page.read_text(encoding="utf-8"))]
    assert [len(page.named("figure")) for page in pages] == [3, 6, 9]
    running = [any(item.get("http-equiv") == "refresh" for item in page.named("meta")) for page in pages]
    assert running == [True, True, False]
    assert "finished" in pages[-1].text
    for row in run.read_metrics():
        assert f"update {row['step']:,}, chrF {row['chrf']:.1f}" in pages[-1].text


def test_what_is_shown_is_what_the_model_does(
    watched: tuple[RunDirectory, Watcher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[list[Followed]] = []

    def note(name: str, status: str, metrics: object, sentences: list[Followed], *, running: bool) -> str:
        shown.append(sentences)
        return ""

    monkeypatch.setattr(watching, "watch_page", note)
    monkeypatch.setattr(watching, "MAX_SHOWN", 3)
    run, _ = watched
    translator = Translator.load(run.path)
    diary = TrainingPage(tmp_path / "watch.html", run, Watcher())
    for step in range(1, 6):
        diary.look(translator.model)
        diary.record({"step": step})
    sentences = shown[-1]
    assert len({item.source for item in sentences}) == 3
    pairs = [run.held_out("validation", side).read_text("utf-8").split("\n") for side in ("source", "target")]
    for item in sentences:
        assert (item.source, item.reference) in zip(*pairs, strict=True)
        steps = [row["step"] for row, _ in item.looks]
        assert steps == [1, 3, 5]
        look = item.looks[-1][1]
        assert look.translation == next(translator.stream([item.source], DecodingOptions())).text
        maps = translator.attend(item.source, item.reference)
        cross = [one.weights for one in maps if (one.kind, one.layer) == ("cross", 1)]
        np.testing.assert_allclose(look.cross.weights, np.mean(cross, axis=0), rtol=0, atol=1e-6)
        assert (look.cross.query_tokens[0], look.cross.key_tokens[-1]) == ("<bos>", "<eos>")


def test_looking_leaves_the_random_state_and_the_model_as_they_are(
    watched: tuple[RunDirectory, Watcher], tmp_path: Path
) -> None:
    run, _ = watched
    model = Translator.load(run.path).model
    before, state = [item.detach().clone() for item in model.parameters()], torch.get_rng_state()
    TrainingPage(tmp_path / "watch.html", run, Watcher()).look(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, model.parameters(), before))
    assert not model.training


def test_a_page_that_cannot_be_written_any_more_is_told_and_training_goes_on(
    watched: tuple[RunDirectory, Watcher], tmp_path: Path
) -> None:
    folder, watcher = tmp_path / "folder", Watcher()
    folder.mkdir()
    diary = TrainingPage(folder / "watch.html", watched[0], watcher)
    folder.rmdir()
    diary.record({"step": 1})
    assert watcher.notes == [
        f"{folder}/watch.html: cannot be written: the folder {folder} does not exist; create it first;"
        " training goes on without its page"
    ]


def test_a_stopped_run_leaves_a_page_that_says_so(data: str, tmp_path: Path) -> None:
    watcher = Watcher()
    page = tmp_path / "watch.html"
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    outcome = train_watched(job, tmp_path / "run", watcher, page=page, should_stop=lambda: len(watcher.rows) == 1)
    assert not outcome.finished
    result = seen(page.read_text(encoding="utf-8"))
    assert "stopped" in result.text
    assert len(result.named("figure")) == 3
    assert not any(item.get("http-equiv") == "refresh" for item in result.named("meta"))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("watch.txt", UsageError, r"a page is written as \.html, not \.txt"),
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
