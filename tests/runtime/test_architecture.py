"""The plan of the runtime, read from its sources: it knows neither PyTorch nor dikkat, and imports point down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "runtime" / "src" / "dikkat_runtime"
LAYERS = (
    ("errors", "files", "hints", "special_tokens"),
    ("native",),
    ("engine", "text"),
    ("tasks",),
    ("documents", "shards"),
    ("server",),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
SELF = {"__init__"}  # the version, which the command line prints, stands in the package itself
LONGEST_FILE, LONGEST_FUNCTION = 350, 60
FILES = sorted(SOURCES.rglob("*.py"))


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def problems(text: str, part: str) -> list[str]:
    """What is wrong with a file of that part."""
    tree, found = ast.parse(text), []
    for name in imported(tree):
        top, *rest = name.split(".")
        if top in ("torch", "dikkat"):
            found.append(f"imports {name}")
        if top == "dikkat_runtime":
            target = rest[0] if rest else "__init__"
            if target not in SELF and LEVEL_OF[target] > LEVEL_OF[part]:
                found.append(f"imports {name} from above")
    if text.count("\n") > LONGEST_FILE:
        found.append("is too long")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION:
            found.append(f"{node.name} is too long")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_file_keeps_to_the_plan(path: Path) -> None:
    assert problems(path.read_text(encoding="utf-8"), part_of(path)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch.nn", "imports torch.nn"),
        ("from dikkat.nn import attention", "imports dikkat.nn"),
        ("from dikkat_runtime.cli import main", "from above"),
        ("x = 1\n" * 351, "is too long"),
        ("def f():\n" + "    pass\n" * 60, "f is too long"),
    ],
)
def test_a_planted_violation_is_found(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text, "engine"))
