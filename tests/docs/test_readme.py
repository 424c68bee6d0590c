"""The README says what is so: its commands are CI's, its snippets run and print what stands below them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Snippet, blocks, broken_links, outputs, snippets

READMES = ("README.md", "README.tr.md")


def set_up_commands(name: str) -> list[str]:
    text = "".join(block.text for block in blocks(ROOT / name) if block.language == "console")
    return [line.removeprefix("$ ") for line in text.split("\n") if ".venv/bin/" in line]


@pytest.mark.parametrize("name", READMES)
def test_the_two_set_up_commands_are_those_of_ci(name: str) -> None:
    commands = set_up_commands(name)
    assert len(commands) == 2
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").split("\n")
    assert [line for line in ci if line in commands] == commands


def run_dikkat(*words: str | Path) -> str:
    """What a command prints, run in the folder of the README."""
    command = [sys.executable, "-m", "dikkat", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@cache
def printed_by(text: str) -> str:
    """What a snippet prints in a process of its own, run once for the pages of both languages."""
    (printed,) = outputs([Snippet("README.md", "python", text, 1, None)], ROOT)
    return printed


@pytest.mark.parametrize("name", READMES)
@pytest.mark.parametrize("number", range(2))
def test_snippets_run_and_print_what_the_page_shows(name: str, number: int) -> None:
    result = snippets(ROOT / name, "python")
    assert len(result) == 2
    snippet = result[number]
    if "runs/quickstart-fr" in snippet.text and not (ROOT / "runs" / "quickstart-fr" / "card.md").exists():
        pytest.skip("runs/quickstart-fr is not there: run `dikkat quickstart` first")
    printed = printed_by(snippet.text)
    assert printed
    if snippet.printed is not None:
        assert printed == snippet.printed


@pytest.mark.parametrize("name", READMES)
def test_it_is_read_in_a_few_minutes(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").split()) <= 900


QUICKSTART = ROOT / "runs" / "quickstart-fr"


@pytest.mark.skipif(not (QUICKSTART / "card.md").exists(), reason="run `dikkat quickstart` first")
def test_the_catalog_of_the_tour_keeps_its_tags(tmp_path: Path) -> None:
    out = tmp_path / "app.fr.po"
    run_dikkat("translate", QUICKSTART, ROOT / "examples" / "app.po", "--out", out)
    (entry,) = re.findall(r'msgid ".+"\nmsgstr "%s ouvre la <b>porte rouge</b>."', out.read_text(encoding="utf-8"))
    for name in READMES:
        assert entry in (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.skipif(not (QUICKSTART / "card.md").exists(), reason="run `dikkat quickstart` first")
def test_the_head_of_the_tour_finds_the_noun() -> None:
    (command,) = re.findall(r"\$ dikkat attend (.*)", (ROOT / "README.md").read_text(encoding="utf-8"))
    (row,) = re.findall(r"(?m)^it +(.*)$", run_dikkat("attend", *shlex.split(command)))
    assert row.split()[0] == "street"
    assert float(row.split()[1]) > 0.9


@pytest.mark.parametrize("name", READMES)
def test_links_lead_somewhere(name: str) -> None:
    assert broken_links(ROOT / name) == []


def scores(name: str, thousands: str, decimal: str) -> list[list[float]]:
    """Numbers of each row of the table of scores, rising, and those that the page says it varies by."""
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    messages = [line for line in lines if line.startswith("|") or "±" in line]
    numbers = [re.findall(r"\d[\d.,]*", line) for line in messages]
    return [
        sorted(float(item.rstrip(".,").replace(thousands, "").replace(decimal, ".")) for item in row) for row in numbers
    ]


def test_both_languages_tell_the_same_scores() -> None:
    english = scores("docs/scores.md", thousands=",", decimal=".")
    assert sum(map(len, english)) > 40
    assert scores("docs/scores.tr.md", thousands=".", decimal=",") == english
