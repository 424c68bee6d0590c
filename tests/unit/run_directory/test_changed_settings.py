"""A run without a manifest whose settings were edited by hand is not used in silence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dikkat.run_directory import RunDirectory
from dikkat_runtime import notices
from dikkat_runtime.run.metrics import note_changed_settings


class Heard:
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def compiling(self, done: int, total: int) -> None: ...

    def stopped_compiling(self) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def heard() -> Iterator[list[str]]:
    listener = Heard()
    before = list(notices._listeners)
    notices.listen(listener)
    yield listener.notes
    notices._listeners[:] = before


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path / "run")
    run.write_config({"task": "translator", "model": {"num_heads": 4}})
    run.append_metrics({"step": 1, "epoch": 1.0, "valid_loss": 2.0})
    (run.path / "manifest.json").unlink(missing_ok=True)
    return run


def test_changed_settings_of_a_run_without_a_manifest_are_told(run: RunDirectory, heard: list[str]) -> None:
    note_changed_settings(run.path)
    assert heard == []
    settings = json.loads(run.config.read_text())
    settings["model"]["num_heads"] = 2
    run.config.write_text(json.dumps(settings))
    note_changed_settings(run.path)
    (note,) = heard
    assert note.startswith(f"{run.config}: was changed after the scores of the run were measured")
    assert "has no manifest.json" in note


def test_a_run_without_scores_has_nothing_to_compare(run: RunDirectory, heard: list[str]) -> None:
    run.metrics.unlink()
    note_changed_settings(run.path)
    assert heard == []
