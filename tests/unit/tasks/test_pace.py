"""What a user is told where the time does not hold the model: before it is spent, with what would fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.training.toy import Recorder

from dikkat.config import RunConfig, build_config, merge
from dikkat.tasks.common import speed_trial as speed
from dikkat.tasks.common.card import longer_run
from dikkat.tasks.common.speed_trial import advised_minutes, needed_updates
from dikkat.tasks.common.train import TimeLimitWatcher, _minutes_needed
from dikkat.tasks.language_model import sizing as language_model_defaults
from dikkat.tasks.language_model.sizing import language_model_settings_for
from dikkat.tasks.translation import defaults as translator_defaults
from dikkat.tasks.translation.defaults import settings_for, translator_settings
from dikkat.training.task import StepReport
from dikkat_runtime.engine.options import Device


def told(seconds: Sequence[float], minutes: float | None, *, can_shrink: bool = True, batches: int = 30) -> list[str]:
    """Notes of a run whose first updates take so long."""
    config = build_config({"training": {"minutes": minutes}})
    watcher = TimeLimitWatcher(inner := Recorder(), config, batches, can_shrink)
    left = None if minutes is None else 60.0 * minutes
    for number, item in enumerate(seconds, start=1):
        left = None if left is None else left - item
        watcher.step(StepReport(number, 0.0, 0.0, 5.0, 100, "tokens", item, left))
    assert len(inner.steps) == len(seconds)
    return inner.notes


def test_case_02_too_little_time_is_said_after_the_first_updates() -> None:
    assert told([3.2, 3.0, 3.0, 3.0], 1.5) == [
        "too little time: at 3.2 s per update there is time for about 24 updates (0.8 passes), but a useful"
        " model needs some 600; give a smaller model, such as --preset tiny, or --minutes 40"
    ]
    assert told([0.9, 0.5, 0.5], 1.5, can_shrink=False) == [
        "too little time: at 0.5 s per update there is time for about 152 updates (5.1 passes), but a useful"
        " model needs some 600; give --minutes 6"
    ]


@pytest.mark.parametrize(
    ("seconds", "minutes"), [([1.9, 0.1, 0.1, 0.1], 1.5), ([9.0] * 3, None), ([3.0] * 4, 60.0)], ids=str
)
def test_nothing_is_said_of_time_enough(seconds: list[float], minutes: float | None) -> None:
    assert told(seconds, minutes) == []


def test_a_short_run_needs_only_its_own_updates() -> None:
    config = build_config({"training": {"max_epochs": 10.0, "accumulate": 2}})
    assert needed_updates(config, 20) == 100
    assert needed_updates(config, 20_000) == 600


@pytest.mark.parametrize(("pace", "dim"), [(0.05, 384), (0.3, 256), (2.0, 128), (1e3, 128)])
def test_the_size_follows_the_speed_of_the_machine(monkeypatch: pytest.MonkeyPatch, pace: float, dim: int) -> None:
    """Half a million pairs in five minutes; the time of an update rises with the cube of the width."""
    measured: list[int] = []

    def seconds(config: RunConfig, limit: float) -> float:
        measured.append(config.model.model_dim)
        return pace * (config.model.model_dim / 256) ** 3

    monkeypatch.setattr(translator_defaults, "translator_seconds", seconds)
    asked = {"training": {"minutes": 5.0}}
    config = build_config(merge(translator_settings(500_000, asked), asked))
    assert config.model.model_dim == dim
    assert measured == sorted(measured, reverse=True)
    assert config.model.dropout <= 0.1, "what is small for its data need not drop much"


@pytest.mark.parametrize(
    ("asked", "device"),
    [
        ({}, "cpu"),
        ({"training": {"minutes": 5.0}}, "cuda"),
        ({"training": {"minutes": 5.0}, "model": {"model_dim": 512}}, "cpu"),
    ],
)
def test_a_size_that_was_chosen_is_left(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, dict[str, float]], device: Device
) -> None:
    monkeypatch.setattr(translator_defaults, "translator_seconds", lambda *_: pytest.fail("nothing is to be measured"))
    minutes = asked.get("training", {}).get("minutes")
    assert translator_settings(500_000, asked, device) == settings_for(500_000, minutes)


def test_a_language_model_keeps_its_kind_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model_defaults, "language_model_seconds", lambda config, limit: 1.0)
    small, large = (language_model_settings_for(10**8, {"training": {"minutes": minutes}}) for minutes in (1.0, 100.0))
    assert small["tokenizer"] == large["tokenizer"]
    assert small["model"]["model_dim"] < large["model"]["model_dim"]


@pytest.mark.parametrize("measure", [speed.translator_seconds, speed.language_model_seconds])
def test_an_update_is_measured(measure: object) -> None:
    config = build_config(
        {
            "model": {
                "model_dim": 16,
                "num_heads": 2,
                "feed_forward_dim": 16,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "tokenizer": {"vocab_size": 301},
            "training": {"tokens_per_batch": 64},
            "language_model": {"context": 16},
        }
    )
    assert callable(measure)
    assert 0.0 < measure(config, 1e9) < 30.0
    assert measure(config, 1e-9) > 0.0, "a hopeless one is measured once"


@pytest.mark.parametrize(
    ("minutes", "updates", "needed", "seconds", "advised"),
    [
        (1.5, 24, 600, 3.2, 40),
        (1.5, 152, 600, 0.5, 6),
        # what is measured at the end differs by little, and the advice by nothing
        (1.5, 26, 600, 3.1, 40),
        (1.5, 590, 600, 0.13, 3),
        (20.0, 100, 600, 12.0, 140),
        (20.0, 100, 600, 120.0, 1200),
    ],
)
def test_one_advice_about_minutes_when_a_run_begins_and_when_it_ends(
    minutes: float, updates: int, needed: int, seconds: float, advised: int
) -> None:
    assert advised_minutes(minutes, updates, needed, seconds) == advised


def test_the_end_of_a_run_repeats_the_advice_of_its_beginning(tmp_path: Path) -> None:
    """Not ten times the minutes where the beginning has said how many are needed."""
    (note,) = told([3.2, 3.1, 3.1], 1.5)
    config = build_config({"training": {"minutes": 1.5}})
    trainer = SimpleNamespace(task=SimpleNamespace(batches_per_epoch=30))
    minutes = _minutes_needed(config, trainer, 26, 26 * 3.1)  # type: ignore[arg-type]
    assert note.endswith(f"--minutes {minutes}")
    command = f"dikkat train translator d.tsv --out {tmp_path} --minutes 1.5"
    assert f"--minutes {minutes}" in longer_run(command, "translator", [], tmp_path, config.training, 10, minutes)
    # with enough updates there is nothing that the beginning has said
    assert _minutes_needed(config, trainer, 600, 90.0) is None  # type: ignore[arg-type]
