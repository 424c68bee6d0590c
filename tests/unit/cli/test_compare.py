"""`dikkat compare`: what it prints and writes, what it refuses, and how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

from dikkat.cli import compare as compare_command
from dikkat.lessons.comparison.layers import ComparisonSettings
from dikkat_runtime.cli.main import run
from dikkat_runtime.cli.progress import WorkProgress

TINY = {"lengths": (16, 32), "width": 8}


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert run(["compare", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("dikkat: ").removesuffix("\n")


@pytest.mark.seed("C2", "F26")
def test_tables_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(compare_command, "QUICK", TINY)
    assert run(["compare", "--quick"]) == 0
    captured = capsys.readouterr()
    headings = [line for line in captured.out.split("\n") if re.match(r"\d\. ", line)]
    assert [heading[0] for heading in headings] == list("1234")
    assert "2 n² d + 4 n d²" in captured.out
    assert "join x1 and x5" in captured.out
    notes = captured.err.split("\n")
    assert re.fullmatch(r"1/\d+  measuring convolution, n = 16, d = 8", notes[0])
    assert run(["compare", "--quick", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["settings"].items() >= {
        "lengths": [16, 32], "width": 8, "kernel": 3, "layers": 2,
        "seed": 0,
    }.items()  # fmt: skip
    assert content["formulas"]["recurrence"]["without_projections"] == "3 n d²"


def test_the_time_that_is_left_is_told_from_the_parts_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 110.0, 120.0, 130.0])
    progress = WorkProgress()
    monkeypatch.setattr("dikkat_runtime.cli.progress.time.monotonic", lambda: next(now))
    for done in range(4):
        progress(done, 10, "measuring")
    # three parts took 30 seconds, so the seven that are left take 70
    assert capsys.readouterr().err.splitlines()[-2:] == ["3/10  measuring", "4/10  measuring, 1:10 left"]


def test_quick_is_smaller() -> None:
    standard, quick = ComparisonSettings(), ComparisonSettings(**compare_command.QUICK)
    assert max(quick.lengths) < max(standard.lengths)


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["runs/a"], "a second run is missing; name two, then texts"),
        (2, ["runs/a", "runs/b", "--quick"], "--quick is for kinds of layers, without runs; leave it out"),
        (2, ["--beam", "1"], "--beam is for two runs; name both"),
        (2, ["runs/a", "runs/b", "hello", "--out", "page.txt"],
            "page.txt: is written as .html or .htm, not .txt; rename it"),
        (66, ["runs/a", "runs/b", "hello"], "runs/a: there is no such run directory"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], code: int, arguments: list[str], message: str
) -> None:
    assert refused(capsys, code, *arguments) == message


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it_and_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    arguments = ["--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "dikkat", "compare", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("1/")
        process.send_signal(number)
        output, notes = process.communicate(timeout=120)
    assert process.returncode == code
    assert output == ""
    assert notes.rstrip("\n").split("\n")[-1] == "dikkat: interrupted"
    assert list(tmp_path.iterdir()) == []
