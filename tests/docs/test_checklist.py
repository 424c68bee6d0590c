"""docs/checklist.md is true: every row is there, every test it names exists, and no test of a row is left out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tests.command_lines import names

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "checklist.md"
ROWS = {"A": 28, "B": 23, "C": 10, "D": 18, "E": 24, "F": 40}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    id: str
    what: str
    tests: tuple[str, ...]
    """Each as path::name."""
    example: str


def rows_of(page: str) -> list[Row]:
    result = []
    for line in page.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"[A-Z]\d+", cells[0]):
            name, what, tests, example = cells
            result.append(Row(name, what, tuple(re.findall(r"`([^`]+)`", tests)), example))
    return result


@cache
def functions_of(file: str) -> dict[str, ast.FunctionDef]:
    """Return the test functions of a file, of its module and of its classes, as path::name with its syntax tree."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    body += [node for item in body if isinstance(item, ast.ClassDef) for node in item.body]
    return {f"{file}::{node.name}": node for node in body if isinstance(node, ast.FunctionDef)}


@cache
def marked_tests() -> dict[str, ast.FunctionDef]:
    """Return the test functions of all files in which the marker `seed` stands; others name no row."""
    paths = [path for path in (ROOT / "tests").rglob("test_*.py") if "mark.seed(" in path.read_text(encoding="utf-8")]
    return {name: node for path in paths for name, node in functions_of(str(path.relative_to(ROOT))).items()}


@cache
def named_tests() -> dict[str, set[str]]:
    """Return the tests of each row, read from the marker `seed` of the sources with `ast`."""
    tests: dict[str, set[str]] = {}
    for name, node in marked_tests().items():
        for row in _rows_marked(node):
            tests.setdefault(row, set()).add(name)
    return tests


def is_slow(name: str) -> bool:
    """Return whether a test of a row has the marker `slow`."""
    return any("mark.slow" in ast.unparse(mark) for mark in marked_tests()[name].decorator_list)


def _rows_marked(function: ast.FunctionDef) -> list[str]:
    marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
    seeds = [mark for mark in marks if isinstance(mark.func, ast.Attribute) and mark.func.attr == "seed"]
    return [ast.literal_eval(row) for mark in seeds for row in mark.args]


def complaints(rows: list[Row], tree: dict[str, set[str]]) -> list[str]:
    """What is wrong with a map."""
    wanted = [f"{letter}{number}" for letter, count in ROWS.items() for number in range(1, count + 1)]
    result = [row.id for row in rows]
    wrong = [f"{name}: {result.count(name)} rows" for name in wanted if result.count(name) != 1]
    wrong += [f"{name}: no such row in the seeds" for name in [*result, *tree] if name not in wanted]
    for row in rows:
        there = tree.get(row.id, set())
        wrong += [f"{row.id}: there is no test {test}" for test in row.tests if test not in there]
        wrong += [f"{row.id}: add {test}" for test in sorted(there - set(row.tests))]
        if len(set(row.tests)) != len(row.tests):
            wrong.append(f"{row.id}: a test twice")
        if not (row.tests and row.example):
            wrong.append(f"{row.id}: not shown by a test and an example")
        if not row.what:
            wrong.append(f"{row.id}: says nothing")
        wrong += bad_example(row)
    return wrong


def bad_example(row: Row) -> list[str]:
    """An example is a page that is there (that of a fault names it), a command that is there, or the test itself."""
    wrong = []
    for link in re.findall(r"\]\(([^)]+)\)", row.example):
        page = PAGE.parent / link
        if not page.exists():
            wrong.append(f"{row.id}: there is no page {link}")
        elif row.id.startswith("F") and f"({row.id})" not in page.read_text(encoding="utf-8"):
            wrong.append(f"{row.id}: {link} does not speak of it")
    used = re.findall(r"dikkat (\w+)", row.example)
    return wrong + [f"{row.id}: there is no command {name}" for name in used if name not in names()]


def test_the_map_is_true() -> None:
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 103 + 40
    assert complaints(rows, named_tests()) == []


def line(name: str, test: str = "", example: str = "the test") -> str:
    return f"| {name} | what | {test} | {example} |"


F1 = "`tests/a.py::test_F01_x`"


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "F1: 0 rows"),
        ([line("F1", F1), line("F1", F1)], "F1: 2 rows"),
        ([line("F1", F1), line("F41", F1)], "F41: no such row in the seeds"),
        ([line("F1", "`tests/a.py::test_F01_y`")], "F1: there is no test tests/a.py::test_F01_y"),
        ([line("F1", "`tests/b.py::test_F01_x`")], "F1: add tests/a.py::test_F01_x"),
        ([line("F1", f"{F1} {F1}")], "F1: a test twice"),
        ([line("E24")], "E24: not shown by a test and an example"),
        ([line("F1", F1, "")], "F1: not shown by a test and an example"),
        ([line("F1", F1, "[p](nowhere.md)")], "F1: there is no page nowhere.md"),
        ([line("F1", F1, "[p](performance.md)")], "F1: performance.md does not speak of it"),
        ([line("F1", F1, "`dikkat nothing`")], "F1: there is no command nothing"),
    ],
)
def test_a_false_map_is_found_out(rows: list[str], complaint: str) -> None:
    tree = {"F1": {"tests/a.py::test_F01_x"}}
    assert complaint in complaints(rows_of("\n".join(rows)), tree)
    kept = complaints(rows_of(line("F1", F1)), tree)
    assert not [item for item in kept if item.startswith("F1:")]


def test_rows_are_read_from_markers() -> None:
    tree = named_tests()
    index = "tests/unit/explain/test_trace.py::test_scores_of_shiny"
    assert index in tree["B3"]
    both = "tests/unit/cli/test_explain.py::test_the_built_in_example"
    assert both in tree["B2"] & tree["B23"]
