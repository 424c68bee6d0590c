"""The line where two files of unequal length stop being translations of each other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dikkat.data.alignment import shift_line
from dikkat_runtime.text.text_files import read_lines

_MULTI30K = Path(__file__).parents[4] / "shared" / "data" / "multi30k"


def _corpus(size: int, seed: int) -> tuple[list[str], list[str]]:
    """Sides of random words whose lengths agree within a third, now and then a number or a question."""
    rng = random.Random(seed)
    sources, targets = [], []
    for _ in range(size):
        words = rng.randint(2, 20)
        number = f" {rng.randint(2, 99)}" if rng.random() < 0.2 else ""
        end = rng.choice("..?!")
        sources.append(" ".join(_word(rng) for _ in range(words)) + number + end)
        targets.append(" ".join(_word(rng) for _ in range(max(1, round(words * rng.uniform(0.8, 1.2))))) + number + end)
    return sources, targets


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefgiklmnoprstuv") for _ in range(rng.randint(2, 9)))


@pytest.mark.parametrize("at", [0, 1, 57, 500, 990])
@pytest.mark.parametrize("lost_in_target", [True, False])
def test_one_lost_line_is_found(at: int, lost_in_target: bool) -> None:
    sources, targets = _corpus(1000, seed=at)
    del (targets if lost_in_target else sources)[at]
    assert abs(shift_line(sources, targets) - (at + 1)) <= 4


@pytest.mark.parametrize("lost", [3, 16, 17, 300])
def test_a_lost_block_is_found(lost: int) -> None:
    sources, targets = _corpus(1000, seed=lost)
    del targets[400 : 400 + lost]
    assert abs(shift_line(sources, targets) - 401) <= 4


def test_the_first_of_several_lost_lines_is_found() -> None:
    sources, targets = _corpus(1000, seed=5)
    for at in (800, 600, 200):
        del targets[at]
    assert abs(shift_line(sources, targets) - 201) <= 4


@pytest.mark.parametrize("lost", [1, 10, 400])
def test_a_file_that_is_cut_off_is_aligned_to_its_end(lost: int) -> None:
    sources, targets = _corpus(1000, seed=lost)
    assert shift_line(sources, targets[:-lost]) == 1000 - lost + 1


def test_one_empty_side_and_lines_without_any_sign_have_an_answer() -> None:
    assert shift_line(["a", "b"], []) == 1
    assert shift_line(["x"] * 5, ["x"] * 3) == 4


@pytest.mark.skipif(not _MULTI30K.is_dir(), reason=f"needs {_MULTI30K}")
def test_lost_lines_of_real_captions_are_found() -> None:
    sources = list(read_lines(_MULTI30K / "train.en.gz"))[:5000]
    targets = list(read_lines(_MULTI30K / "train.de.gz"))[:5000]
    for at in (1234, 4000):
        assert abs(shift_line(sources, targets[:at] + targets[at + 1 :]) - (at + 1)) <= 4
