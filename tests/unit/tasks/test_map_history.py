"""The attention maps that a run keeps of its training: exact, few, and shown over time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.tasks.test_watching import SETTINGS, Watcher, data, tensors

from dikkat.cli.heads import TARGETS
from dikkat.config import build_config
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.models.factory import build_language_model, build_model
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.common import map_history
from dikkat.tasks.common.map_history import MapHistory, MapKeeper, read_pair, watched_pairs
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.train import train
from dikkat.tasks.inspection.over_training import OverTraining
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.errors import DataError, MissingInputError, UsageError

__all__ = ["data"]

WATCHED = "the dog sees the cat ||| cato vidas dogo"
MORE = {**SETTINGS, "training": {**SETTINGS["training"], "keep_checkpoints": 9}}


@pytest.fixture(scope="module")
def kept(data: str, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run that has looked after every update, and has kept all of its checkpoints."""
    out = tmp_path_factory.mktemp("kept") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_history, "GROWTH", 1.0)
        assert train(TranslatorJob(TrainRequest([data], settings=MORE)), out, Watcher(), watch_texts=[WATCHED]).finished
    return RunDirectory.open(out)


def test_kept_maps_are_those_of_the_checkpoint_of_their_update(kept: RunDirectory) -> None:
    history = MapHistory.read(kept)
    config = run_config(kept.read_config(), "config.json")
    folders = sorted(kept.checkpoints.glob("step-*"))
    assert len(folders) == 3
    assert history.updates == list(range(1, int(folders[-1].name[5:]) + 1))
    for folder in folders:
        model = build_model(config.model, 0).eval()
        parameters = FlatParameters(model)
        parameters.fill(parameters.master, read_tensors(folder / "model.safetensors"))
        maps = read_pair(model, history.pairs[0])
        assert len(maps) == 1 + 2 * 2
        for name, array in maps.items():
            look = history.updates.index(int(folder.name[5:]))
            assert np.array_equal(history.arrays[f"0.{name}"][look], array)
    first, last = (history.arrays["0.decoder.cross.1"][look] for look in (0, -1))
    assert not np.array_equal(first, last)


def test_looking_changes_nothing_of_what_is_learned(kept: RunDirectory, data: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MapKeeper, "is_due", lambda self, updates: False)
        patch.setattr(MapKeeper, "observe", lambda self, updates, model: None)
        train(TranslatorJob(TrainRequest([data], settings=MORE)), tmp_path / "run", Watcher())
    assert tensors(RunDirectory.open(tmp_path / "run")) == tensors(kept)


def test_looks_grow_apart() -> None:
    keeper = MapKeeper(RunDirectory(Path("run")), [((5, 2), (1,))])
    due = []
    for update in range(1, 1001):
        if keeper.is_due(update):
            due.append(update)
            keeper._history.updates.append(update)
    assert due[:7] == [1, 2, 3, 4, 5, 7, 9]
    assert len(due) < 35


def test_what_is_kept_stays_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(map_history, "MAX_BYTES", 4 * 8 * 5)
    pairs = [((5, 2), (1,)), ((6, 2), (1,))]
    history = MapHistory(list(pairs))
    for update in range(1, 10):
        history.updates.append(update)
        for number in range(len(history.pairs)):
            history.arrays.setdefault(f"{number}.encoder.self.0", []).append(np.full((1, 2, 2), update, np.float32))
        history.thin()
    assert history.updates[0] == 1
    assert history.updates[-1] == 9
    assert len(history.updates) <= 5
    assert [int(array[0, 0, 0]) for array in history.arrays["0.encoder.self.0"]] == history.updates
    run = RunDirectory(tmp_path)
    history.write(run)
    resumed = MapKeeper(run, [], resumed_at=8)._history
    assert resumed.pairs == pairs
    assert resumed.updates == [update for update in history.updates if update <= 8]
    assert [len(array) for array in resumed.arrays.values()] == [len(resumed.updates)] * 2


def test_the_page_and_the_table_tell_since_when(kept: RunDirectory) -> None:
    shown = OverTraining(kept.path)
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', shown.page(), re.DOTALL)
    page = json.loads(content)
    updates = page["training"]["updates"]
    assert len(page["sentences"]) == len(updates) == len(page["training"]["entropy"]["cross"][1][0])
    assert page["sentences"][0]["source"]["text"] == "the dog sees the cat"
    first = shown.sentence(0, 0)["cross", 2, 1].weights.astype(np.float64)
    entropy = -(first * np.log(first)).sum(axis=1).mean()
    assert page["training"]["entropy"]["cross"][1][0][0] == pytest.approx(entropy, abs=1e-4)
    stats = shown.stats[-1][HeadName("decoder", 1, "cross", 0)]
    assert page["training"]["roles"]["cross"][1][0][-1] == stats.target
    assert page["training"]["shares"]["cross"][1][0][-1] == pytest.approx(stats.target_share, abs=1e-4)
    heading, *lines = shown.lines(TARGETS)
    assert f"{len(updates)} snapshots" in heading
    assert len(lines) == 2 + 2 * 2 * 2
    assert all(re.search(r"since update \d+$", line) for line in lines)


def test_a_run_without_kept_maps_says_how_to_keep_them(kept: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"keeps no maps of its training; .* with --watch-text"):
        MapHistory.read(RunDirectory(tmp_path))
    (tmp_path / "attention.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DataError, match="damaged"):
        MapHistory.read(RunDirectory(tmp_path))


@pytest.mark.parametrize("text", ["the dog", "the dog |||", "a ||| b ||| c"])
def test_a_text_to_watch_needs_its_translation(text: str, kept: RunDirectory) -> None:
    config = run_config(kept.read_config(), "config.json")
    with pytest.raises(UsageError, match=r"--watch-text .* a translator watches a text with its translation"):
        watched_pairs(kept, config, build_model(config.model, 0), [text])


def test_held_out_sentences_are_watched_by_default(kept: RunDirectory) -> None:
    config = run_config(kept.read_config(), "config.json")
    pairs = watched_pairs(kept, config, build_model(config.model, 0), [])
    assert len(pairs) == 3
    assert all(source[-1] == 2 and target[0] == 1 for source, target in pairs)


def test_a_language_model_is_watched_too() -> None:
    sizes: dict[str, Any] = {"vocab_size": 20, "model_dim": 8, "num_heads": 2, "feed_forward_dim": 8}
    config = build_config({"model": {**sizes, "encoder_layers": 1, "decoder_layers": 2}})
    model = build_language_model(config.model, "causal", 0).eval()
    maps = read_pair(model, ((), (5, 6, 7)))
    assert {name: array.shape for name, array in maps.items()} == {
        "decoder.self.0": (2, 3, 3), "decoder.self.1": (2, 3, 3),
    }  # fmt: skip
    assert not np.triu(maps["decoder.self.1"], 1).any()
