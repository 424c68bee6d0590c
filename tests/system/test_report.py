"""`dikkat report`, `dikkat draw` and `dikkat train … --watch` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.system.toy import Command, settings
from tests.unit.explain.report.inspection import Seen
from tests.unit.tasks.test_watching import content


def test_a_finished_run_becomes_one_file(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    code, output, message = dikkat("report", trained, "--out", out, "--language", "tr")
    assert (code, output) == (0, "")
    # in one process with the tests, standard error is not that of the command, which speaks Turkish
    assert message == f"wrote {out}: open it in a browser\n"
    result = Seen()
    result.feed(out.read_text(encoding="utf-8"))
    assert "Çevirmen en → eo" in result.text
    assert result.named("iframe")
    assert 10_000 < out.stat().st_size < 5_000_000
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "is written as .html or .htm, not .pdf; rename it", ["--out", "report.pdf"]),
        (2, 'there are no messages in "de"; choose from en, tr', ["--language", "de"]),
        (73, "the folder nowhere does not exist; create it first", ["--out", "nowhere/report.html"]),
    ],
)
def test_a_bad_wish_is_one_line(dikkat: Command, trained: Path, code: int, message: str, arguments: list[str]) -> None:
    assert message in dikkat.fails(code, "report", trained, *arguments)


def test_heads_and_report_say_which_head_was_guided(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, run := tmp_path / "run")
    (run / "manifest.json").unlink()
    settings_of_run = json.loads((run / "config.json").read_text(encoding="utf-8"))
    settings_of_run["training"] |= {"guided_weight": 1.0, "guided_layer": 1, "guided_head": 2}
    (run / "config.json").write_text(json.dumps(settings_of_run), encoding="utf-8")
    note = "head 2 of layer 1 of the encoder was guided: training told it which noun a pronoun means"
    assert note in dikkat("heads", run, "--sentences", "2")[2]
    assert note not in dikkat("heads", trained, "--sentences", "2")[2]
    assert dikkat("report", run, "--out", tmp_path / "report.html")[0] == 0
    assert note in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_unfinished_run_and_none_at_all_are_one_line(dikkat: Command, stopped: Path, tmp_path: Path) -> None:
    assert "holds an unfinished run; finish it with: dikkat train" in dikkat.fails(66, "report", stopped)
    assert "there is no such run directory" in dikkat.fails(66, "report", tmp_path / "nothing")


@pytest.mark.seed("D15")
@pytest.mark.parametrize("which", ["trained", "stopped"])
def test_a_run_is_drawn(dikkat: Command, which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run, out = request.getfixturevalue(which), tmp_path / "model.svg"
    code, output, complaint = dikkat("draw", "model", run, "--out", out)
    assert (code, complaint) == (0, f"wrote {out}\n")
    assert output.startswith("run: ")
    assert "Cross-attention" in output
    assert ElementTree.fromstring(out.read_text(encoding="utf-8")).tag.endswith("svg")


@pytest.mark.seed("D15")
def test_settings_are_drawn_without_a_run(dikkat: Command, tmp_path: Path) -> None:
    code, output, _ = dikkat("draw", "model", "--preset", "tiny", "--set", "model.positions=rotary")
    assert code == 0
    assert output.startswith("tiny: ")
    assert "V × D = 2,000 × 128" in output
    assert "q and k turned by position (rotary)" in output
    (tmp_path / "own.toml").write_text("[model]\nvocab_size = 77\n", encoding="utf-8")
    code, output, _ = dikkat("draw", "model", "--config", tmp_path / "own.toml")
    assert output.startswith("own: ")
    assert "V × D = 77 × 256" in output


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "name what to draw: a run directory, --preset NAME, --config FILE or --set", []),
        (2, 'no preset is called "tyni"; did you mean "tiny"?', ["--preset", "tyni"]),
        (2, "is written as .svg, not .png; rename it", ["--preset", "tiny", "--out", "model.png"]),
        (2, "a run has its own settings: leave out DIR", ["somewhere", "--preset", "tiny"]),
        (66, "there is no such run directory", ["somewhere"]),
        (73, "the folder nowhere does not exist", ["--preset", "tiny", "--out", "nowhere/model.svg"]),
    ],
)
def test_a_model_that_cannot_be_drawn_is_one_line(
    dikkat: Command, code: int, message: str, arguments: list[str]
) -> None:
    assert message in dikkat.fails(code, "draw", "model", *arguments)


@pytest.mark.seed("C5", "C6", "C7")
def test_the_positions_are_drawn_and_told(dikkat: Command, tmp_path: Path) -> None:
    out = tmp_path / "positions.svg"
    code, output, complaint = dikkat(
        "draw", "positions", "--kind", "sinusoidal", "--dim", "32", "--length", "60", "--out", out
    )
    assert (code, complaint) == (0, f"wrote {out}\n")
    lines = output.split("\n")
    assert lines[:4] == [
        "column 6 repeats after 35.33 rows", "column 7 repeats after 35.33 rows",
        "column 8 repeats after 62.83 rows", "column 9 repeats after 62.83 rows",
    ]  # fmt: skip
    assert lines[4].startswith("row p + 5 is row p turned by one fixed rotation, for every p; largest error ")
    assert lines[5:] == [
        f"{number} in binary is {digits}"
        for number, digits in enumerate(["000", "001", "010", "011", "100", "101", "110", "111"])
    ] + [""]
    assert ElementTree.fromstring(out.read_bytes()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ('there is no fixed table of "learned" positions', ["--kind", "learned"]),
        ("there is no column 8: choose from 0 to 7", ["--dim", "8"]),
        ("a shift must be from 1 to 3, the last row, not 5", ["--length", "4"]),
        ('--columns must be numbers from 0, as in 6-9 or 0,4, at most 50 of them, not "six"', ["--columns", "six"]),
        ('at most 50 of them, not "0-999999999"', ["--columns", "0-999999999"]),
        ('--columns "9-6" names no column', ["--columns", "9-6"]),
        ("is written as .png or .svg, not .gif", ["--out", "positions.gif"]),
    ],
)
def test_positions_that_cannot_be_drawn_are_one_line(
    dikkat: Command, message: str, arguments: list[str], tmp_path: Path
) -> None:
    inputs = ["--out", str(tmp_path / "positions.png"), *arguments]
    assert message in dikkat.fails(2, "draw", "positions", *inputs)
    assert list(tmp_path.iterdir()) == []


def test_a_run_can_be_watched(dikkat: Command, toy_data: Path, tmp_path: Path) -> None:
    page = tmp_path / "watch.html"
    options = settings(training__max_epochs=2, training__validations=2)
    code, _, notes = dikkat("train", "translator", toy_data, "--out", tmp_path / "run", "--watch", page, *options)
    assert code == 0, notes
    followed = content(page.read_text(encoding="utf-8"))
    assert len(followed["losses"]) == 2
    assert followed["updates"][-1] == followed["losses"][-1][0]
    message = dikkat.fails(2, "train", "translator", toy_data, "--out", tmp_path / "other", "--watch", "watch.png")
    assert message == "watch.png: is written as .html or .htm, not .png; rename it"
    assert not (tmp_path / "other").exists()
