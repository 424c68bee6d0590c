"""A training whose disk fails, or that is killed, at any change to its run: it goes on to the same weights."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attacks.commands import KINDS, Commands, training

FAULTS = ("kill", "half", "ENOSPC", "EIO")


def stray(run: Path, fault: str) -> list[str]:
    """What no run holds when nobody writes it, after a `fault`."""
    names = [str(path.relative_to(run)) for path in run.rglob("*")]
    steps = sorted(path.name for path in run.glob("checkpoints/*"))
    # a save that a disk refused is made good by the next one, so the first of the two may be missing
    allowed = [["step-000002", "step-000004"], *([["step-000004"]] if fault in ("ENOSPC", "EIO") else [])]
    more = [] if steps in allowed else steps
    return [name for name in names if ".writing-" in name or ".partial" in name or ".replaced-" in name] + more


def crash(commands: Commands, good: Path, folder: Path, at: int, fault: str) -> str:
    """What went wrong; an empty string when all went well, "past" when there are fewer changes than `at`."""
    kind, out = good.name, folder / good.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"root": str(out), "at": at, "fault": fault}))
    command = training(kind, good.parent, out)
    where = f"{kind} {fault} at change {at}: "
    first = commands(*command, timeout=120, faults=plan)
    killed = fault in ("kill", "half") and first.code == -9
    if first.code == 0 and not killed:
        # a fault of a removal that may fail costs nothing; and there are only so many changes
        second = first
    else:
        if not killed and (first.is_bad or first.code not in (73, 74)):
            return where + (first.is_bad or f"code {first.code}: {first.stderr[-300:]}")
        resume = ["--resume"] if out.exists() else []
        second = commands(*command, *resume, timeout=120)
        # at the last of all changes, the fsync of the folder that holds the card, it has nothing left to do
        is_whole = second.stderr.endswith("holds a finished run; give another --out\n") and (out / "card.md").exists()
        if second.code == 73 and is_whole:
            second = replace(second, code=0)
    if second.code:
        return f"{where}then code {second.code}: {second.stderr[-600:]}"
    if left := stray(out, fault):
        return f"{where}left {left}"
    for name in ("model.safetensors", "checkpoints/step-000004/optimizer.safetensors", "tokenizer.json"):
        if (out / name).read_bytes() != (good / name).read_bytes():
            return f"{where}another {name}"
    return ""


def changes(commands: Commands, good: Path, folder: Path) -> int:
    """How many changes a training makes to its run."""
    folder.mkdir()
    plan, log = folder / "plan.json", folder / "log"
    plan.write_text(json.dumps({"root": str(folder / "run"), "at": -1, "fault": "kill", "log": str(log)}))
    assert commands(*training(good.name, good.parent, folder / "run"), timeout=120, faults=plan).code == 0
    return int(log.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_some_crash_points(commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    count = changes(commands, runs[kind], tmp_path / "count")
    assert count > 100
    rng = random.Random(kind)
    reports = [crash(commands, runs[kind], tmp_path / "x", rng.randint(1, count), fault) for fault in FAULTS]
    assert not list(filter(None, reports)), "\n".join(filter(None, reports))


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_crash_point(commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str, fault: str) -> None:
    count = changes(commands, runs[kind], tmp_path / "count")
    reports = [crash(commands, runs[kind], tmp_path / "x", at, fault) for at in range(1, count + 1)]
    assert not list(filter(None, reports)), "\n".join(filter(None, reports))
