"""A file of a run is missing, damaged or no file at all: one line with the right code, or it is not read."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attacks.commands import KINDS, Commands, Result, uses
from tests.attacks.faults import FAULTS, copy_of, files_of, flipped, missing

DATA, MISSING = 65, 66
NOT_READ = ("training.png", "elsewhere")


def expected(act: str, name: str, fault: str) -> set[int]:
    """The exit codes that are right for a fault of a file; 0 where it is not read, or made good and told."""
    parts = Path(name).parts
    if name == "manifest.json":
        # without it nothing can be compared, which is said where it matters
        return {0} if fault == "missing" else {DATA}
    if parts[0] == "checkpoints":
        # a damaged checkpoint is skipped
        return {0} if fault not in ("link", "dangling", "device", "pipe", "folder", "huge") else {0, DATA}
    codes = {MISSING} if fault == "missing" else {DATA}
    if name in ("config.json", "tokenizer.json") or (act != "resume" and name == "model.safetensors"):
        return codes
    if act == "resume" and parts[0] in ("corpus", "held_out"):
        return codes
    return {0, *codes}


def check(commands: Commands, good: Path, folder: Path, act: str, name: str, fault: Callable[[Path], None]) -> str:
    """What went wrong with a fault of a file; an empty string when all went well."""
    kind = good.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run = copy_of(good, folder / kind)
    if act == "resume":
        (run / "card.md").unlink()
    if not (run / name).exists():
        return ""
    if (run / name).stat().st_size == 0 and fault.__name__ in ("empty", "truncated", "zeros"):
        return ""  # a part without texts, which stays as it is
    fault(run / name)
    result = commands(*uses(kind, run)[act])
    where = f"{kind} {act} {name} {fault.__name__}: "
    if result.is_bad:
        return where + result.is_bad
    if result.code == 2 and "held out no test part" in result.stderr:
        return ""
    if result.code not in expected(act, name, fault.__name__):
        return f"{where}code {result.code}, not of {expected(act, name, fault.__name__)}: {result.stderr[-300:]}"
    if result.code and Path(name).parts[0] not in result.stderr:
        return f"{where}does not name the file: {result.stderr}"
    return ""


def cases(run: Path) -> list[tuple[str, str, Callable[[Path], None]]]:
    names = [name for name in files_of(run) if not name.startswith(NOT_READ)]
    return [(act, name, fault) for act in ("use", "evaluate", "resume") for name in names for fault in FAULTS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_a_file_is_one_line(commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    some = random.Random(kind).sample(cases(runs[kind]), 16)
    result = [check(commands, runs[kind], tmp_path / "attack", *case) for case in some]
    assert not list(filter(None, result)), "\n".join(filter(None, result))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_of_every_file_is_one_line(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    result = [check(commands, runs[kind], tmp_path / "attack", *case) for case in cases(runs[kind])]
    assert not list(filter(None, result)), "\n".join(filter(None, result))


def test_a_run_without_a_manifest_is_taken_up_and_that_is_said(
    commands: Commands, runs: dict[str, Path], tmp_path: Path
) -> None:
    run = copy_of(runs["translator"], tmp_path / "translator")
    for name in ("manifest.json", "card.md"):
        missing(run / name)
    assert "manifest" not in commands(*uses("translator", run)["use"]).stderr
    result = commands(*uses("translator", run)["resume"])
    assert result.code == 0
    assert f"{run} has no manifest.json: its data is not checked" in result.stderr


def test_lost_rows_of_metrics_come_back_from_the_checkpoint(
    commands: Commands, runs: dict[str, Path], tmp_path: Path
) -> None:
    run = copy_of(runs["translator"], tmp_path / "translator")
    missing(run / "card.md")
    metrics = run / "metrics.jsonl"
    whole = metrics.read_bytes()
    first = whole.split(b"\n")[0] + b"\n"
    for damaged in (first, whole[len(first) :], b"", whole.replace(b"1", b"2", 1)):
        metrics.write_bytes(damaged)
        (run / "card.md").unlink(missing_ok=True)
        result = commands(*uses("translator", run)["resume"])
        assert result.code == 0, result.stderr
        assert f"{metrics} was damaged; its rows are restored from step-000004" in result.stderr
        assert metrics.read_bytes() == whole


def flip_or_cut(path: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    if rng.random() < 0.75:
        flipped(path, rng.randrange(1 << 30))
        return "flip"
    with path.open("r+b") as file:
        file.truncate(rng.randrange(size))
    return "cut"


Answer = tuple[int, list[str], bytes]
GOOD: dict[tuple[Path, str], Answer] = {}
"""What a command says of a good run, by the run and what is done with it."""


def answer(
    commands: Commands, good: Path, folder: Path, act: str, damage: Callable[[Path], None]
) -> tuple[Answer, Result]:
    """What a command says of a copy of a run after `damage`: code, output without times, and the weights it leaves."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run = copy_of(good, folder / good.name)
    if act == "resume":
        # back to the first checkpoint, so that the data is read again
        (run / "card.md").unlink()
        shutil.rmtree(run / "checkpoints" / "step-000004")
    damage(run)
    result = commands(*uses(good.name, run)[act])
    weights = run / "model.safetensors"
    content = weights.read_bytes() if weights.exists() and act == "resume" else b""
    said = [line for line in result.stdout.split("\n") if not re.search(r"\d s$", line)]
    return (result.code, said, content), result


def silent_damage(commands: Commands, runs: dict[str, Path], folder: Path, number: int) -> str:
    """What damage number `number` did without a word, against what the same command says of the good run."""
    rng = random.Random(number)
    kind, act = KINDS[number % 3], rng.choice(["use", "evaluate", "resume"])
    good = runs[kind]
    if (good, act) not in GOOD:
        GOOD[good, act] = answer(commands, good, folder, act, lambda _: None)[0]
    damages: list[str] = []

    def damage(run: Path) -> None:
        names = [name for name in files_of(run) if name != "training.png" and (run / name).stat().st_size]
        name = rng.choice(names)
        damages.append(f"{name} {flip_or_cut(run / name, rng)}")

    actual, result = answer(commands, good, folder, act, damage)
    where = f"{number} {kind} {act} {damages[0]}: "
    if result.is_bad:
        return where + result.is_bad
    is_told = any(word in result.stderr for word in ("damaged", "rebuilt", "forgotten", "restored"))
    if result.code == 0 and not is_told and actual != GOOD[good, act]:
        return where + "another answer without a word"
    return ""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2))])
def test_no_flipped_bit_changes_an_answer_without_a_word(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, part: int
) -> None:
    result = [silent_damage(commands, runs, tmp_path / "attack", 44 * part + number) for number in range(44)]
    assert not list(filter(None, result)), "\n".join(filter(None, result))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(12))
def test_twelve_hundred_damages_change_no_answer_without_a_word(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, part: int
) -> None:
    result = [silent_damage(commands, runs, tmp_path / "attack", 1000 + 100 * part + number) for number in range(100)]
    assert not list(filter(None, result)), "\n".join(filter(None, result))
