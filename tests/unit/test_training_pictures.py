"""Trainings of tests draw a picture where anything new is in it, and else write one that was drawn before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import training_pictures

import dikkat.tasks.common.train as training
from dikkat.explain.plots import plot_training
from dikkat_runtime.errors import DataError

ROWS: list[dict[str, Any]] = [{"step": step, "train_loss": 1.0 / step, "chrf": None} for step in (1, 2)]


def test_trainings_of_this_process_draw_so() -> None:
    assert vars(training)["plot_training"] is training_pictures.draw_once


def test_only_what_is_new_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def draw(metrics: list[dict[str, Any]], path: Path, title: str) -> None:
        plot_training(metrics, path, title=title)
        drawn.append(path.name)

    monkeypatch.setattr(training_pictures, "plot_training", draw)
    monkeypatch.setattr(training_pictures, "_drawn", {})
    scored = [{**row, "chrf": 1.0} for row in ROWS]
    for name, rows, title in (
        ("first", ROWS, "run"),
        ("same", ROWS, "run"),
        ("scored", scored, "run"),
        ("letters", ROWS, "çıktı"),
    ):
        training_pictures.draw_once(rows, tmp_path / f"{name}.png", title)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert drawn == ["first.png", "scored.png", "letters.png"]
    with pytest.raises(DataError, match="no training curve to draw"):
        training_pictures.draw_once([], tmp_path / "none.png", "run")
