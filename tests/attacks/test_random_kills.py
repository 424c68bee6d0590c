"""A training that is killed at random moments, in preparation, training and saving: it ends with the same bytes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.commands import Commands, training

LONG = ("training.max_updates=40", "training.validations=10", "training.patience=99", "model.dropout=0.2")
"""Half of its time goes into saving."""
LAST = "checkpoints/step-000040"
SAME = ("model.safetensors", f"{LAST}/optimizer.safetensors", f"{LAST}/model.safetensors")


def command(data: Path, out: Path, precision: str) -> list[str]:
    settings = [f"--set={setting}" for setting in (*LONG, f"training.precision={precision}")]
    return [*training("translator", data, out), *settings]


def kills(commands: Commands, data: Path, folder: Path, precision: str, threads: int, count: int) -> Iterator[str]:
    """What went wrong, once for each of `count` kills; an empty string when nothing did."""
    folder.mkdir()
    good, out = folder / "good", folder / "killed"
    whole = commands(*command(data, good, precision), threads=threads)
    assert whole.code == 0, whole.stderr
    rng, killed = random.Random(threads), 0
    while killed < count:
        delay = rng.uniform(0.0, 1.1 * whole.wall_seconds)
        resume = ["--resume"] if out.exists() else []
        result = commands(*command(data, out, precision), *resume, timeout=delay, threads=threads)
        where = f"{precision}, kill {killed} after {delay:.3f} s: "
        if result.code == -9:
            killed += 1
            # now and then it goes on to the end, so that both early and late moments are met
            if rng.random() < 0.6 and killed < count:
                yield ""
                continue
            resume = ["--resume"] if out.exists() else []
            result = commands(*command(data, out, precision), *resume, threads=threads)
        if result.code:
            yield where + f"then code {result.code}: {result.stderr[-400:]}"
        else:
            others = [name for name in SAME if (out / name).read_bytes() != (good / name).read_bytes()]
            yield where + f"other bytes in {others}" if others else ""
        shutil.rmtree(out, ignore_errors=True)


@pytest.mark.nightly
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_fifty_random_kills(
    commands: Commands, runs: dict[str, Path], tmp_path: Path, precision: str, threads: int
) -> None:
    reports = list(kills(commands, runs["translator"].parent, tmp_path / "x", precision, threads, 50))
    assert not list(filter(None, reports)), "\n".join(filter(None, reports))
