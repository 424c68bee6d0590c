"""The options of `dikkat explain` on typed words: what they choose, and which of them exclude each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dikkat_runtime.cli.main import run

HELLO = "Hello shiny sun!"


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["explain", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert run(["explain", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("dikkat: ").removesuffix("\n")


def numbers(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[float]]:
    loaded: dict[str, list[float]] = json.loads(explained(capsys, *arguments, "--json"))
    return loaded


@pytest.mark.seed("B2", "B23")
def test_the_built_in_example(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "In short: scores 0.7842 1.3569 1.2487 · weights 0.2291 0.4063 0.3646 · context 0.3990 0.3854 0.8610"
    assert expected in explained(capsys, HELLO).replace("\n", " ").replace("  ", " ")


def test_the_query_is_a_word_or_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    by_word, by_number = (numbers(capsys, HELLO, "--query", query) for query in ("sun", "3"))
    assert by_word == by_number
    assert by_word["weights"] == pytest.approx([0.2283, 0.3874, 0.3843], abs=5e-5)


@pytest.mark.seed("B6")
def test_beta_and_scaled(capsys: pytest.CaptureFixture[str]) -> None:
    scaled, beta = numbers(capsys, HELLO, "--scaled"), numbers(capsys, HELLO, "--beta", str(3**-0.5))
    assert scaled == beta
    assert scaled["weights"] == pytest.approx([0.2703, 0.3762, 0.3535], abs=5e-5)
    flat, sharp = numbers(capsys, HELLO, "--beta", "0"), numbers(capsys, HELLO, "--beta", "100")
    assert flat["weights"] == pytest.approx([1 / 3] * 3, abs=1e-15)
    assert sharp["weights"] == pytest.approx([0, 1, 0], abs=5e-5)


def test_vectors_from_options_and_from_a_file_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "v.tsv"
    path.write_text("gel\t-0.1 0.2\ngit\t0.3 0.4\n")
    typed = numbers(capsys, "gel git", "--vector", "-0.1 0.2", "--vector", "0.3 0.4")
    assert typed == numbers(capsys, "gel git", "--vectors", str(path))
    assert typed["scores"] == pytest.approx([0.05, 0.05])


def test_turkish(capsys: pytest.CaptureFixture[str]) -> None:
    messages = explained(capsys, HELLO, "--language", "tr")
    assert messages.startswith("“Hello shiny sun!”: “shiny” için üç adımda özdikkat\n")
    assert "Adım 3. Bağlam" in messages


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (65, [""], "there is nothing to attend to in an empty sentence; give a few words"),
        (2, ["Hello world"], 'no vector for "world": give each word one with --vector "0.1 0.2 0.3", or all with '
            "--vectors FILE"),
        (2, ["a b", "--vector", "1 2", "--vector", "1"],
            'vectors must have one width, but "a" has 2 numbers and "b" has 1'),
        (66, ["a", "--vectors", "/nowhere/v.tsv"],
            "/nowhere/v.tsv: there is no such file; there is no folder /nowhere either"),
        (2, [HELLO, "--query", "4"], "there is no query 4; choose from 1:Hello 2:shiny 3:sun"),
        (2, [HELLO, "--vector", "1", "--vectors", "x"],
            "--vector and --vectors both give the vectors; leave one of them out"),
        (2, [HELLO, "--beta", "1", "--scaled"],
            "--beta and --scaled both set the inverse temperature; leave one of them out"),
        (2, [HELLO, "--beta", "nan"], "--beta must be a finite number, not nan"),
        (2, [HELLO, "--language", "de"], 'there are no messages in "de"; choose from en, tr'),
        (2, [HELLO, "--stack", "middle"],
            "Invalid value for '--stack': 'middle' is not one of 'encoder', 'decoder'. Try `dikkat explain --help`."),
        (2, [HELLO, "--kind", "x"],
            "Invalid value for '--kind': 'x' is not one of 'self', 'cross'. Try `dikkat explain --help`."),
        (2, [HELLO, "--layer", "1"], "--layer needs --run DIR: it chooses a cell of a trained model"),
        (2, [HELLO, "--target", "x"], "--target needs --run DIR: it chooses a cell of a trained model"),
        (2, [HELLO, "--run", "x", "--scaled"],
            "--scaled is for typed words, not for --run: a trained model has its own"),
        (66, [HELLO, "--run", "/nowhere"], "/nowhere: there is no such run directory"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], code: int, arguments: list[str], message: str
) -> None:
    assert refused(capsys, code, *arguments) == message


def test_typed_words_need_no_torch() -> None:
    code = (
        "import sys; from dikkat_runtime.cli.main import run; "
        f"code = run(['explain', {HELLO!r}]); sys.exit(code or 'torch' in sys.modules)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True).returncode == 0
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["word " * 10_000],
        ["x" * 50_000],
        ["a\0b \x1b[31m\u202e"],
        ["half \udcff"],
        ["a b", "--vector", "1 2", "--vector", "3 " * 50_000 + "x"],
        [HELLO, "--query", "9" * 5000],
        [HELLO, "--query", "\x1b[31m" + "x" * 50_000],
        ["a " * 5000, "--vector", "1 2"],
    ],
    ids=lambda arguments: repr(arguments[0][:12] + arguments[-1][:4]),
)
def test_a_message_stays_one_short_line_whatever_was_typed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *arguments]) in (2, 65)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.removesuffix("\n").isprintable()
    assert len(captured.err) < 1000
