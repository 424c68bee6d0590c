"""The README says what is so: its commands are CI's, its snippets run and print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.tr.md")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)\)")


def blocks(name: str) -> list[tuple[str, str]]:
    """Fenced blocks of a page: language and text, in order."""
    return _FENCE.findall((ROOT / name).read_text(encoding="utf-8"))


def snippets(name: str) -> list[tuple[str, str | None]]:
    """Python blocks, each with the text block that directly follows it: what it must print."""
    found = blocks(name)
    following = [*found[1:], ("", "")]
    return [
        (text, after if kind == "text" else None)
        for (language, text), (kind, after) in zip(found, following, strict=True)
        if language == "python"
    ]


def set_up_commands(name: str) -> list[str]:
    text = "".join(text for language, text in blocks(name) if language == "console")
    return [line.removeprefix("$ ") for line in text.split("\n") if ".venv/bin/" in line]


@pytest.mark.parametrize("name", READMES)
def test_the_two_set_up_commands_are_those_of_ci(name: str) -> None:
    commands = set_up_commands(name)
    assert len(commands) == 2
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").split("\n")
    assert [line for line in ci if line in commands] == commands


@pytest.mark.parametrize("name", READMES)
@pytest.mark.parametrize("number", range(2))
def test_snippets_run_and_print_what_the_page_shows(name: str, number: int) -> None:
    found = snippets(name)
    assert len(found) == 2
    code, expected = found[number]
    if "runs/quickstart-fr" in code and not (ROOT / "runs" / "quickstart-fr" / "card.md").exists():
        pytest.skip("runs/quickstart-fr is not there: run `dikkat quickstart` first")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if expected is not None:
        assert done.stdout == expected


@pytest.mark.parametrize("name", READMES)
def test_every_folder_of_the_package_is_in_the_file_tree(name: str) -> None:
    tree = next(text for language, text in blocks(name) if "src/dikkat/" in text)
    rooms = {path.name for path in (ROOT / "src" / "dikkat").iterdir() if path.name not in ("__pycache__", "py.typed")}
    named = {line.split()[0].rstrip("/") for line in tree.split("\n") if line.startswith("  ")}
    assert named == {room for room in rooms if not room.startswith("__")}


@pytest.mark.parametrize("name", READMES)
def test_links_lead_somewhere(name: str) -> None:
    links = _LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
