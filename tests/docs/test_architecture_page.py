"""The map of the code names what is there, and its paths are as short as they claim."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:src|runtime|tests)/[\w./]+?)(?::([\w.]+))?`")


def section(title: str) -> str:
    """Return the text below a heading, up to the next one."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def what_is_missing(path: str, name: str | None) -> str:
    """Return why `path`, or the definition `name` in it, does not exist; an empty string where it does."""
    file = ROOT / path
    if not file.exists():
        return f"{path} does not exist"
    if path.endswith("/") != file.is_dir():
        return f"{path} is written as the other of file and folder"
    if name is None:
        return ""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for part in name.split("."):
        result = [node for node in body if getattr(node, "name", None) == part]
        if not result:
            return f"{path} defines no {name}"
        body = getattr(result[0], "body", [])
    return ""


def test_everything_the_map_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 40
    assert not [missing for path, name in named if (missing := what_is_missing(path, name or None))]


@pytest.mark.parametrize("package", ["src/dikkat", "runtime/src/dikkat_runtime"])
def test_every_folder_and_file_of_a_package_has_a_row(package: str) -> None:
    unlisted = {"__pycache__", "__init__.py", "__main__.py", "py.typed"}
    there = {path for path in (ROOT / package).iterdir() if path.name not in unlisted}
    rows = set(re.findall(rf"`{package}/([\w.]+)/?`", section("Layers")))
    assert rows == {path.name for path in there}


@pytest.mark.parametrize(
    ("path", "name", "complaint"),
    [
        ("src/dikkat/nowhere.py", None, "does not exist"),
        ("src/dikkat/nn", None, "the other of file and folder"),
        ("src/dikkat/config/model.py", "ModelConfig.nothing", "defines no"),
    ],
)
def test_a_name_that_is_not_there_is_found_out(path: str, name: str | None, complaint: str) -> None:
    assert complaint in what_is_missing(path, name)


@pytest.mark.parametrize(("title", "most"), [("The path of a training batch", 14), ("The path of a sentence", 12)])
def test_a_path_passes_few_functions(title: str, most: int) -> None:
    steps = re.findall(r"(?m)^\d+\. ", section(title))
    assert 5 < len(steps) <= most


def test_an_addition_touches_at_most_two_files() -> None:
    rows = [row for row in section("Where do I add …").splitlines() if row.startswith("| a")]
    assert len(rows) > 4
    for row in rows:
        touched = NAMED.findall(row.split("|")[3])
        assert len(touched) <= 2, row
        assert touched or NAMED.findall(row.split("|")[2]), f"{row}: names no file at all"
