"""How much a translator reads in one piece is what its training lines were like."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dikkat.config import build_config
from dikkat.data.corpus import source_profile
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.reading import default_limits
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.segmentation import ReadingLimits


def test_the_profile_tells_lengths_and_whether_lines_hold_several_sentences() -> None:
    lengths = np.array([5] * 1998 + [30, 90])
    single = source_profile(lengths, ["A cat sleeps."] * 1000, "en")
    assert single == {"longest": 90, "usual": 30, "several_sentences": 0.0}
    several = source_profile(lengths, ["A cat sleeps."] * 900 + ["It is a cat. It sleeps."] * 100, "en")
    assert several["several_sentences"] == pytest.approx(0.1)


@pytest.fixture
def run(untrained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(untrained, tmp_path / "run"))


def write_profile(run: Path, profile: object) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "manifest.json").unlink(missing_ok=True)
    (run / "config.json").write_text(json.dumps({**config, "data_source": {"source_lines": profile}}))


def test_the_limits_are_those_of_the_profile(run: Path) -> None:
    write_profile(run, {"longest": 40, "usual": 20, "several_sentences": 0.2})
    assert Translator.load(run).limits == ReadingLimits(50, 20, several_sentences=True)
    write_profile(run, {"longest": 4000, "usual": 2000, "several_sentences": 0.001})
    assert Translator.load(run).limits == ReadingLimits(256, 256, several_sentences=False)


def test_without_a_profile_the_limits_are_those_of_the_settings(run: Path) -> None:
    assert Translator.load(run).limits == ReadingLimits(256, 256, several_sentences=True)


@pytest.mark.parametrize(
    "profile",
    [7, {}, {"longest": 5}, {"longest": "x", "usual": 1, "several_sentences": 0},
     {"longest": 1, "usual": 9, "several_sentences": 0}, {"longest": 9, "usual": 0, "several_sentences": 0}],
)  # fmt: skip
def test_a_profile_that_is_none_is_refused(run: Path, profile: object) -> None:
    write_profile(run, profile)
    with pytest.raises(DataError, match=r"config\.json: data_source\.source_lines is damaged"):
        Translator.load(run)


def test_a_profile_without_end_is_refused(run: Path) -> None:
    write_profile(run, {"longest": float("inf"), "usual": 1, "several_sentences": 0})
    with pytest.raises(DataError, match=r"config\.json: damaged: not valid JSON"):
        Translator.load(run)


def test_a_table_of_positions_has_one_for_every_token_of_the_output() -> None:
    config = build_config({"model": {"positions": "learned", "max_positions": 60}})
    longest = default_limits(config.data.max_length, config.model.max_positions).longest
    assert 2 * (longest + 1) + 10 <= 60 < 2 * (longest + 2) + 10
