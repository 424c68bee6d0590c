"""Interrupted at any moment and resumed, a run ends with the very bits of the run that nobody interrupted."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.system.toy import child, settings

TIME_LIMIT = 600.0
"""Seconds after which a run hangs; a busy machine may need minutes for one that nobody disturbs."""


def options(precision: str, kills: int = 5) -> list[str]:
    """Of a run with a validation more than kills."""
    return settings(
        model__dropout=0.1,
        training__precision=precision,
        training__max_epochs=2 * (kills + 1),
        training__validations=kills + 1,
        training__patience=99,
    )


def count_rows(out: Path) -> int:
    """Validations that metrics.jsonl tells of."""
    metrics = out / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def wait_for_rows(process: subprocess.Popen[str], out: Path, rows: int, at_most: float = math.inf) -> None:
    """Wait until so many validations are on disk, or the process has ended; without complaint `at_most` so long."""
    begun = time.monotonic()
    while process.poll() is None and count_rows(out) < rows and time.monotonic() < begun + at_most:
        assert time.monotonic() < begun + TIME_LIMIT, "no progress"
        time.sleep(0.002)


def rows_of(out: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    # the checksum is of the time as well
    assert all(row.pop("seconds") > 0 and len(row.pop("sha256")) == 64 for row in rows)
    return rows


def bits_of(out: Path) -> dict[str, bytes]:
    """All tensors that a run leaves, and the numbers of its last checkpoints but for the time."""
    files = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.safetensors"))}
    for path in out.rglob("state.json"):
        state = json.loads(path.read_text(encoding="utf-8"))
        assert state.pop("seconds") > 0
        files[str(path.relative_to(out))] = json.dumps(state).encode()
    return files


def finish(arguments: list[str | Path]) -> str:
    process = child(arguments)
    _, notes = process.communicate(timeout=TIME_LIMIT)
    assert process.returncode == 0, notes
    return notes


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody disturbs, long enough for so many kills."""

    out: Path
    precision: str
    kills: int

    @property
    def options(self) -> list[str]:
        return options(self.precision, self.kills)


@pytest.fixture(scope="module")
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy_data: Path
) -> Undisturbed:
    precision, kills = request.param
    run = Undisturbed(tmp_path_factory.mktemp(precision) / "whole", precision, kills)
    finish(["train", "translator", toy_data, "--out", run.out, *run.options])
    assert len(rows_of(run.out)) == kills + 1
    return run


BY_NIGHT = [
    pytest.param(("float32", 5), id="float32, five kills", marks=pytest.mark.nightly),
    pytest.param(("bfloat16", 5), id="bfloat16, five kills", marks=pytest.mark.nightly),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("undisturbed", "last"),
    [
        *(pytest.param(*each.values, signal.SIGKILL, id=each.id, marks=each.marks) for each in BY_NIGHT),
        # by day less than half of it: the first falls anywhere, the second after a resumption
        pytest.param(("float32", 2), signal.SIGINT, id="float32, a kill and Ctrl-C"),
    ],
    indirect=["undisturbed"],
)
def test_killed_at_random_moments_and_resumed_is_bit_identical(
    undisturbed: Undisturbed, last: signal.Signals, toy_data: Path
) -> None:
    """SIGKILL, dropout on. The first moment falls anywhere, the others after one more validation each.

    A kill comes with the next validation at the latest: a run that goes faster than the undisturbed one is not over.
    """
    whole, precision, kills = undisturbed.out, undisturbed.precision, undisturbed.kills
    seed = 20 + len(precision)
    moments = random.Random(seed)
    out = whole.with_name("killed run")
    between = json.loads((whole / "metrics.jsonl").read_text().split("\n")[-2])["seconds"] / (kills + 1)
    rows = 0
    for kill in range(kills):
        process = child(["train", "translator", toy_data, "--out", out, *undisturbed.options, *resume_if(out)])
        wanted = min(rows + 1, kills - 1) if kill else 0
        delay = moments.uniform(0.0, 0.6 * between if kill else 2.0)
        wait_for_rows(process, out, wanted)
        wait_for_rows(process, out, wanted + 1, at_most=delay)
        number = last if kill == kills - 1 else signal.SIGKILL
        process.send_signal(number)
        _, notes = process.communicate(timeout=TIME_LIMIT)
        if number == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL, notes
        else:
            step = check_stopped(process, notes, out, number)
        rows = count_rows(out)
        print(f"{precision}, seed {seed}: {number.name} {delay:.3f} s after {wanted} rows; {rows} rows on disk")
    assert rows >= kills - 1, "the run must have been killed while it trained"
    assert not (out / "card.md").exists()
    notes = finish(["train", "translator", toy_data, "--out", out, "--resume"])
    assert last == signal.SIGKILL or f"resumed at update {step}" in notes
    assert rows_of(out) == rows_of(whole)
    assert bits_of(out).keys() == bits_of(whole).keys()
    assert bits_of(out) == bits_of(whole)


def resume_if(out: Path) -> list[str]:
    return ["--resume"] if out.exists() else []


def check_stopped(process: subprocess.Popen[str], notes: str, out: Path, number: signal.Signals) -> int:
    """Return the update at which a signal stopped the process, which saved its run and tells how to go on."""
    assert process.returncode == 128 + number, notes
    last = notes.rstrip("\n").split("\n")[-1]
    go_on = last.removeprefix("stopped and saved; continue with: ")
    # a shell runs it as it stands: the plain name where the shell finds it, else how the program was called
    assert go_on.removeprefix(f"{sys.executable} -m ") == f"dikkat train translator --out '{out}' --resume"
    assert "Traceback" not in notes
    steps = sorted(int(path.name.removeprefix("step-")) for path in (out / "checkpoints").iterdir())
    assert steps[-1] >= rows_of(out)[-1]["step"]
    return steps[-1]


@pytest.mark.slow
@pytest.mark.parametrize("undisturbed", BY_NIGHT, indirect=True)
def test_a_signal_saves_and_tells_how_to_go_on(undisturbed: Undisturbed, toy_data: Path) -> None:
    """SIGINT for the float32 run, SIGTERM for the bfloat16 one."""
    number = signal.SIGINT if undisturbed.precision == "float32" else signal.SIGTERM
    out = undisturbed.out.with_name(f"stopped by {number.name}")
    process = child(["train", "translator", toy_data, "--out", out, *undisturbed.options])
    wait_for_rows(process, out, undisturbed.kills // 2)
    process.send_signal(number)
    _, notes = process.communicate(timeout=TIME_LIMIT)
    step = check_stopped(process, notes, out, number)
    notes = finish(["train", "translator", "--out", out, "--resume"])
    assert f"resumed at update {step}" in notes
    assert rows_of(out) == rows_of(undisturbed.out)
    assert (out / "model.safetensors").read_bytes() == (undisturbed.out / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_preparation_leaves_nothing_half_written(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The data comes through a pipe that is never fed, so that the signal meets a waiting process."""
    os.mkfifo(pipe := tmp_path / "data.tsv")
    out = tmp_path / "run"
    process = child(["train", "translator", pipe, "--out", out, *options("float32")])
    with pipe.open("w"):
        time.sleep(0.1)
        process.send_signal(number)
        _, notes = process.communicate(timeout=TIME_LIMIT)
    assert notes == "dikkat: interrupted\n"
    assert process.returncode == code
    assert list(out.iterdir()) == []
