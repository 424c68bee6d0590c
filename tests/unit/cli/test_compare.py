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
from dikkat.cli.progress import WorkProgress
from dikkat.lessons.comparison.layers import ComparisonSettings
from dikkat_runtime.cli.main import run

TINY = ("--lengths", "32,16", "--widths", "8,16", "--copy-lengths", "3,5", "--updates", "2")


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert run(["compare", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("dikkat: ").removesuffix("\n")


@pytest.mark.seed("C2", "F26")
def test_tables_json_and_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    drawn = tmp_path / "compare.svg"
    assert run(["compare", *TINY, "--cell", "rnn", "--picture", str(drawn)]) == 0
    captured = capsys.readouterr()
    headings = [line for line in captured.out.split("\n") if re.match(r"\d\. ", line)]
    assert [heading[0] for heading in headings] == list("1234567")
    assert "2 n² d + 4 n d²" in captured.out
    assert "join x1 and x5" in captured.out
    assert drawn.read_text(encoding="utf-8").startswith("<?xml")
    notes = captured.err.split("\n")
    assert re.fullmatch(r"1/\d+  measuring convolution, n = 16, d = 8", notes[0])
    assert notes[-2:] == [f"wrote {drawn}", ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.svg"]
    assert run(["compare", *TINY, "--cell", "rnn", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["settings"].items() >= {
        "lengths": [16, 32], "widths": [8, 16], "copy_lengths": [3, 5], "kernel": 3, "layers": 2, "cell": "rnn",
        "updates": 2, "seed": 0,
    }.items()  # fmt: skip
    assert content["formulas"]["recurrence"]["without_projections"] == "n d²"


def test_the_time_that_is_left_is_told_from_the_parts_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([100.0, 110.0, 120.0, 130.0])
    progress = WorkProgress()
    monkeypatch.setattr("dikkat.cli.progress.time.monotonic", lambda: next(now))
    for done in range(4):
        progress(done, 10, "measuring")
    # three parts took 30 seconds, so the seven that are left take 70
    assert capsys.readouterr().err.splitlines()[-2:] == ["3/10  measuring", "4/10  measuring, 1:10 left"]


def test_quick_is_smaller_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ComparisonSettings] = []
    monkeypatch.setattr(compare_command, "_run", lambda settings, json, picture: seen.append(settings))
    assert run(["compare"]) == run(["compare", "--quick"]) == run(["compare", "--quick", "--lengths", "99"]) == 0
    standard, quick, mixed = seen
    assert standard == ComparisonSettings()
    assert max(quick.lengths) < max(standard.lengths)
    assert max(quick.widths) < max(standard.widths)
    assert (mixed.lengths, mixed.widths) == ((99,), quick.widths)


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["--lengths", "0"], "lengths must be from 1 to 32,768, not 0"),
        (2, ["--lengths", "8,many"],
            '--lengths must be whole numbers joined by commas, as in 256,512, not "8,many"'),
        (2, ["--copy-lengths", ""],
            '--copy-lengths must be whole numbers joined by commas, as in 256,512, not ""'),
        (2, ["--widths", "8,-8"], "widths must be from 1 to 4,096, not -8"),
        (2, ["--kernel", "1"], "kernel must be from 2 to 1,024, not 1"),
        (2, ["--layers", "0"], "layers must be from 1 to 32, not 0"),
        (2, ["--cell", "lstm"], 'there is no cell "lstm"; choose from gru, rnn'),
        (2, ["--updates", "0"], "updates must be from 1 to 1,000,000, not 0"),
        (2, ["--seed", "-1"], "seed must be from 0 to 4,294,967,295, not -1"),
        (2, ["--picture", "a.jpg"], "a.jpg: a picture is written as .png or .svg, not .jpg; rename it"),
        (73, ["--picture", "/nowhere/a.png"],
            "/nowhere/a.png: cannot be written: the folder /nowhere does not exist; create it first"),
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
    arguments = ["--json", "--picture", str(tmp_path / "a.png")]
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
