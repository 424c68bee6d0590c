"""What is said of a run that ended badly, and the command that is given with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.command_lines import complaint

from dikkat.config import TrainingConfig
from dikkat.tasks.common.card import Ending, is_still_falling, longer_run, problems
from dikkat.training.task import Baseline
from dikkat_runtime.localization import pop_language_option

COPYING = Baseline(14.9, 1.0, "copying the source (chrF 14.90)")
CASE_02 = [(2, 8.616), (3, 7.757), (4, 7.198), (5, 6.919), (6, 6.739)]
QUICKSTART = [(223, 0.393), (445, 0.118), (667, 0.0855), (889, 0.079)]


def rows(losses: list[tuple[int, float]]) -> list[dict[str, Any]]:
    return [{"step": step, "valid_loss": loss} for step, loss in losses]


def test_a_good_run_has_no_problems() -> None:
    assert problems(Ending(rows(QUICKSTART), 99.0, COPYING, overhead=0.05, seconds=90.0)) == []


def test_case_02_a_run_that_learned_nothing_says_so() -> None:
    result = problems(
        Ending(rows(CASE_02), 2.3, COPYING, 0.6, seconds=90.0, shortcomings=("no text of “x” was validated on",))
    )
    assert result == [
        "it has learned nothing of use: it is no better than copying the source (chrF 14.90)",
        "its loss was still falling steeply when it ended",
        "60% of its time went to validations and saves",
        "no text of “x” was validated on",
    ]


def test_of_a_run_of_seconds_no_share_is_worth_a_word() -> None:
    assert problems(Ending(rows(QUICKSTART), 99.0, COPYING, overhead=0.6, seconds=20.0)) == []


@pytest.mark.parametrize(
    ("losses", "is_falling"),
    [
        (CASE_02, True),
        (QUICKSTART, False),
        ([(10, 5.0), (20, 4.0)], False),
        ([(10, 5.0), (20, 4.0), (30, 3.0)], True),
        ([(10, 5.0), (20, 2.0), (30, 2.1)], False),
        ([(10, 5.0), (20, 2.0), (21, 1.9), (22, 1.897)], False),
    ],
)
def test_whether_the_loss_still_falls(losses: list[tuple[int, float]], is_falling: bool) -> None:
    assert is_still_falling(rows(losses)) == is_falling


@pytest.mark.parametrize(
    ("command", "training", "times", "wanted"),
    [
        (
            "dikkat train translator 'my data.tsv' --preset base --out r --minutes 1.5",
            {"minutes": 1.5},
            10,
            "dikkat train translator 'my data.tsv' --out r-3 --minutes 15",
        ),
        (
            "dikkat train translator d.tsv --preset=base --minutes=20 --out=r",
            {"minutes": 20},
            3,
            "dikkat train translator d.tsv --preset=base --out r-3 --minutes 60",
        ),
        (
            "dikkat train translator d.tsv --out r",
            {"max_epochs": 30.0},
            3,
            "dikkat train translator d.tsv --out r-3 --set training.max_epochs=90",
        ),
        (
            "dikkat train translator d.tsv --out r --set training.max_updates=20",
            {"max_updates": 20},
            10,
            "dikkat train translator d.tsv --out r-3 --set training.max_updates=200",
        ),
        ("", {"minutes": 2}, 3, "dikkat train translator 'a b.en' a.fr --out r-3 --minutes 6"),
        (
            "dikkat --language tr train translator d.tsv --from base --out r",
            {"minutes": 2},
            3,
            "dikkat --language tr train translator d.tsv --from base --out r-3 --minutes 6",
        ),
    ],
)
def test_the_advice_is_a_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    training: dict[str, Any],
    times: int,
    wanted: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for taken in ("r", "r-2"):
        Path(taken).mkdir()
    advice = longer_run(command, "translator", ["a b.en", "a.fr"], Path("r"), TrainingConfig(**training), times)
    assert advice == wanted
    monkeypatch.setattr("dikkat_runtime.localization._chosen", [])
    assert not complaint(pop_language_option(shlex.split(advice)[1:]))
