"""A training that goes on under other conditions: the same bytes where that is promised, else one line that says so."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.commands import KINDS, Commands, Result, uses
from tests.attacks.faults import copy_of

ALIKE = ": the model will be as good, but not the same bit for bit"


def half_done(good: Path, folder: Path) -> Path:
    """A copy of a run as it was at its first checkpoint, after half of its updates."""
    run = copy_of(good, folder / good.name)
    (run / "card.md").unlink()
    shutil.rmtree(run / "checkpoints" / "step-000004")
    return run


def resumed(commands: Commands, run: Path, **conditions: Any) -> tuple[Result, list[str]]:
    """How a run ended that goes on under these `conditions`, and the notes about them."""
    result = commands(*uses(run.name, run)["resume"], **conditions)
    assert not result.is_bad, result
    assert result.code == 0, result
    assert (run / "card.md").exists()
    return result, [line for line in result.stderr.split("\n") if line.startswith("resumed with")]


@pytest.mark.parametrize("kind", KINDS)
def test_under_the_same_conditions_it_ends_with_the_same_bytes(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    run = half_done(runs[kind], tmp_path)
    result, notes = resumed(commands, run)
    assert notes == []
    # nothing was given on it
    assert "command line" not in result.stderr
    for name in ("model.safetensors", "checkpoints/step-000004/optimizer.safetensors"):
        assert (run / name).read_bytes() == (runs[kind] / name).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_with_another_number_of_threads_it_says_so(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    _, notes = resumed(commands, half_done(runs[kind], tmp_path), threads=2)
    assert notes == [f"resumed with threads 2 instead of 1{ALIKE}"]


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_other_engine_it_says_so(commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    _, notes = resumed(commands, half_done(runs[kind], tmp_path), native=False)
    assert notes == [f"resumed with engine torch instead of native{ALIKE}"]


def test_a_precision_of_the_command_line_is_not_taken_and_that_is_said(
    commands: Commands, runs: dict[str, Path], tmp_path: Path
) -> None:
    """The precision is one of the settings that the run keeps."""
    run = half_done(runs["translator"], tmp_path)
    result = commands(*uses("translator", run)["resume"], "--set=training.precision=bfloat16")
    assert result.code == 0, result
    assert f"resuming with the data and settings in {run}; those of the command line are not read" in result.stderr
    assert (run / "model.safetensors").read_bytes() == (runs["translator"] / "model.safetensors").read_bytes()


def other_machine(state: dict[str, Any]) -> None:
    state["conditions"].update(processor="another", torch="1.0")


def other_numbers(state: dict[str, Any]) -> None:
    """What `auto` chose on the machine where the run began."""
    state["conditions"].update(numbers="int8")


def older(state: dict[str, Any]) -> None:
    del state["conditions"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_machine, ["processor .* instead of another, torch .* instead of 1.0"]),
        (other_numbers, ["numbers float32 instead of int8"]),
        (older, []),
    ],
)
def test_what_another_machine_or_an_older_version_wrote(
    commands: Commands,
    runs: dict[str, Path],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None],
    said: list[str],
) -> None:
    """Of the older state it is not known what it began with; its bytes are the same where nothing differed."""
    from tests.attacks.malicious import reseal

    run = half_done(runs["translator"], tmp_path)
    path = run / "checkpoints" / "step-000002" / "state.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    reseal(run)
    _, notes = resumed(commands, run)
    assert len(notes) == len(said)
    for note, pattern in zip(notes, said, strict=True):
        assert note.endswith(ALIKE)
        assert re.match(f"resumed with {pattern}:", note)
    assert (run / "model.safetensors").read_bytes() == (runs["translator"] / "model.safetensors").read_bytes()
