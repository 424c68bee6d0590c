"""A run from a stranger ends in an answer or in one line, in bounded time and memory, and changes nothing outside."""

from __future__ import annotations

import random
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.attacks.commands import KINDS, Commands, uses
from tests.attacks.faults import copy_of
from tests.attacks.malicious import MALICE

MAX_SECONDS = 5.0
MAX_MEGABYTES = 400.0
"""More than a process that does nothing."""


def attack(commands: Commands, runs: dict[str, Path], folder: Path, number: int) -> str:
    """What went wrong with malicious run `number`; an empty string when all went well."""
    rng = random.Random(number)
    kind, malice, act = KINDS[number % 3], MALICE[number % len(MALICE)], rng.choice(["use", "evaluate", "resume"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    victim = folder / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    run = copy_of(runs[kind], folder / kind)
    if act == "resume":
        (run / "card.md").unlink()
    how = malice(run, rng)
    before = sorted(str(path) for path in victim.rglob("*"))
    result = commands(*uses(kind, run)[act])
    problems = [
        result.is_bad,
        f"{result.seconds:.1f} s" if result.seconds > MAX_SECONDS else "",
        f"{result.megabytes:.0f} MiB" if result.megabytes > good_megabytes(commands) + MAX_MEGABYTES else "",
        "changed the victim" if sorted(str(path) for path in victim.rglob("*")) != before else "",
    ]
    report = "; ".join(filter(None, problems))
    return f"{number} {kind} {malice.__name__} ({how}) {act}: {report}" if report else ""


@cache
def good_megabytes(commands: Commands) -> float:
    """What a process that does nothing takes."""
    return commands("--help").megabytes


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2))])
def test_malicious_runs(commands: Commands, runs: dict[str, Path], tmp_path: Path, part: int) -> None:
    numbers = range(40 * part, 40 * part + 40)
    reports = [attack(commands, runs, tmp_path / "attack", number) for number in numbers]
    assert not list(filter(None, reports)), "\n".join(filter(None, reports))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_five_hundred_malicious_runs(commands: Commands, runs: dict[str, Path], tmp_path: Path, part: int) -> None:
    numbers = range(1000 + 50 * part, 1050 + 50 * part)
    reports = [attack(commands, runs, tmp_path / "attack", number) for number in numbers]
    assert not list(filter(None, reports)), "\n".join(filter(None, reports))
