"""The rules of `docs/architecture.md` for the runtime: it knows neither PyTorch nor dikkat, and imports point down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.naming import banned_identifiers, banned_names, poor_docstrings, rule

SOURCES = Path(__file__).resolve().parents[2] / "runtime" / "src" / "dikkat_runtime"
LAYERS = (
    (
        "errors",
        "files",
        "hints",
        "localization",
        "notices",
        "process_signals",
        "special_tokens",
    ),
    ("run",),
    ("native",),
    ("engine", "text"),
    ("tasks", "rows"),
    ("documents", "shards"),
    ("server",),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
GLOSSARY = "\n".join(rule("glossary.md", name) for name in ("words", "limits", "docstrings"))
SELF = {"__init__"}  # the version, which the command line prints, stands in the package itself
MAX_FILE_LENGTH, MAX_FUNCTION_LENGTH = 500, 60
MIN_FRAGMENT_LENGTH = 50
"""Lines below which a file that one file of its own folder imports stands in that file, where one looks for it."""
FILES = sorted(SOURCES.rglob("*.py"))
OTHER_FILES = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".c", ".h", ".js"))


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
    """Return the violations of a file of that part."""
    tree, result = ast.parse(text), []
    for name in imported(tree):
        top, *rest = name.split(".")
        if top in ("torch", "dikkat"):
            result.append(f"imports {name}")
        if top == "dikkat_runtime":
            target = rest[0] if rest else "__init__"
            if target not in SELF and LEVEL_OF[target] > LEVEL_OF[part]:
                result.append(f"imports {name} from above")
    if text.count("\n") > MAX_FILE_LENGTH:
        result.append("is too long")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LENGTH:
            result.append(f"{node.name} is too long")
    return result


def words_against_the_glossary(text: str, stem: str) -> list[str]:
    """The names of a Python file called `stem`, and the docstrings in it, that do not keep to tests/naming.py."""
    tree, own_name = ast.parse(text), ast.parse(f"{stem} = 0")
    names = [name for name_tree in (own_name, tree) for _, name in banned_names(name_tree)]
    return names + [f"the docstring of {name}" for _, name in poor_docstrings(tree)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_names_and_docstrings_keep_to_the_glossary(path: Path) -> None:
    assert words_against_the_glossary(path.read_text(encoding="utf-8"), path.stem) == [], GLOSSARY


@pytest.mark.parametrize("path", OTHER_FILES, ids=lambda path: path.name)
def test_names_of_c_and_javascript_keep_to_the_glossary(path: Path) -> None:
    assert [*banned_identifiers(f"int {path.stem};"), *banned_identifiers(path.read_text(encoding="utf-8"))] == [], (
        GLOSSARY
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_file_keeps_to_the_plan(path: Path) -> None:
    assert problems(path.read_text(encoding="utf-8"), part_of(path)) == []


def fragments(sources: Path) -> list[str]:
    """Return the short files that one file of their own folder alone imports."""
    files = {
        ".".join(path.relative_to(sources.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted(sources.rglob("*.py"))
        if path.stem not in ("__init__", "__main__")
    }
    users: dict[str, set[str]] = {name: set() for name in files}
    for name, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                for other in {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)} & {*files}:
                    users[other].add(name)
    return [
        name
        for name, text in files.items()
        if text.count("\n") < MIN_FRAGMENT_LENGTH
        and len(users[name]) == 1
        and name.rpartition(".")[0] == next(iter(users[name])).rpartition(".")[0]
    ]


def test_no_file_is_a_fragment_of_the_one_that_imports_it() -> None:
    assert not fragments(SOURCES)


def test_a_planted_fragment_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "dikkat_runtime"
    files = {
        "text/user.py": "from dikkat_runtime.text import short, long\nfrom dikkat_runtime.text.both import x",
        "text/other.py": "from dikkat_runtime.text.both import x\nfrom dikkat_runtime.engine.elsewhere import y",
        "text/short.py": "x = 1\n",
        "text/long.py": "x = 1\n" * MIN_FRAGMENT_LENGTH,
        "text/both.py": "x = 1\n",
        "text/found_by_name.py": "x = 1\n",
        "engine/elsewhere.py": "y = 1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert fragments(folder) == ["dikkat_runtime.text.short"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch.nn", "imports torch.nn"),
        ("from dikkat.nn import attention", "imports dikkat.nn"),
        ("from dikkat_runtime.cli import main", "from above"),
        ("x = 1\n" * (MAX_FILE_LENGTH + 1), "is too long"),
        ("def f():\n" + "    pass\n" * 60, "f is too long"),
    ],
)
def test_a_planted_violation_is_reported(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text, "engine"))


@pytest.mark.parametrize(
    ("text", "stem", "said"),
    [
        ("found = 1", "files", ["found"]),
        ("def best_place(told): pass", "files", ["best_place", "told"]),
        ("x = 1", "told", ["told"]),
        ('"""What is done."""', "files", ["the docstring of the module"]),
        ('"""Do it."""\nFileNotFoundError\nfounded = match.found', "files", []),
    ],
)
def test_a_banned_word_of_python_is_reported(text: str, stem: str, said: list[str]) -> None:
    assert words_against_the_glossary(text, stem) == said


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("int found = 0;", [(1, "found")]),
        ("/* found */\n// told\nfloat of_place[2];", [(3, "of_place")]),
        ('void meet(Meeting *m);\nputs("found");', [(1, "meet"), (1, "Meeting")]),
        ("#define STRETCH 4", [(1, "STRETCH")]),
        ("const told = (place) => `${place}`; // found", [(1, "told"), (1, "place"), (1, "place")]),
        ("/* a place\n * found */ int index; char *replaced;", []),
    ],
)
def test_a_banned_word_of_c_or_javascript_is_reported(text: str, names: list[tuple[int, str]]) -> None:
    assert list(banned_identifiers(text)) == names
