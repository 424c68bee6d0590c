"""Find every template of a message in the sources: what is given to `msg` and to errors, help, and counted nouns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dikkat_runtime import errors
from dikkat_runtime.localization import script_templates

SOURCES = {
    "dikkat": Path(__file__).resolve().parents[1] / "src/dikkat",
    "dikkat_runtime": Path(__file__).resolve().parents[1] / "runtime/src/dikkat_runtime",
}
"""The folder of each package."""
ERRORS = {error.__name__ for error in vars(errors).values() if isinstance(error, type)} | {"LostRankError"}
"""Errors that a user meets; their first argument is a template."""
MADE = {"msg", "say", "translated", "print_note", *ERRORS}
"""What takes a template and its values."""
OF_ANOTHER_SHAPE = {"SettingError", "AbsentError", "NeedsTorchError"}
"""Errors that take more than a template and its values."""
PRINTING = {"say", "note", "_note"}
"""Functions that print a message."""
HELPED = {"Option", "Argument", "Group", "Setting", "_check_limit", "_count", "_seconds", "Claim", "_Claim"}
"""What keeps texts that are turned into messages later, such as the help of options; its
arguments of several words are templates."""
TABLES = {"SHARED", "OPTIONS", "COMMANDS"}
"""Tables of what commands do and of their options, which the help translates."""
_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)[^{}]*\}")
_WORD = re.compile(r"[A-Za-z]{2,}")


class Found(NamedTuple):
    """A template or what is wrong with a message, and where it is written."""

    text: str
    where: str


def fields_of(template: str) -> list[str]:
    """Return the names of the values of a template, each once, in order."""
    return list(dict.fromkeys(name for name in _FIELD.findall(template) if name))


@cache
def trees(package: str) -> dict[str, ast.Module]:
    """Return the syntax tree of each file of a package, by its path in it."""
    folder = SOURCES[package]
    paths = sorted(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def scripts(package: str) -> dict[str, str]:
    """Return each script and HTML file of a package, by its path in it."""
    folder = SOURCES[package]
    paths = sorted([*folder.rglob("*.js"), *folder.rglob("*.html")])
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@cache
def templates(package: str) -> list[Found]:
    """Return every template of a package that has a word to translate, those of JavaScript too."""
    python = [
        Found(text.strip("\n "), f"{name}:{line}")
        for name, tree in trees(package).items()
        for line, text in templates_in(tree, is_command=name.startswith("cli/"))
    ]
    pages = [Found(text, name) for name, script in scripts(package).items() for text in script_templates(script)]
    return [found for found in [*python, *pages] if _WORD.search(_FIELD.sub("", found.text))]


def strings(package: str) -> set[str]:
    """Return every string of a package, one of which an entry of its catalog must be."""
    nodes = (node for tree in trees(package).values() for node in ast.walk(tree))
    return {node.value.strip("\n ") for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def templates_in(tree: ast.Module, *, is_command: bool) -> Iterator[tuple[int, str]]:
    """Yield line and text of the templates of one file; of docstrings, those of commands, whose help they are."""
    for node in ast.walk(tree):
        if is_command and isinstance(node, ast.FunctionDef) and _is_command(node):
            yield from ((node.lineno, part) for part in _paragraphs(ast.get_docstring(node) or ""))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in TABLES:
            texts = (text.value for text in ast.walk(node.value) if isinstance(text, ast.Constant))
            yield from (
                (node.lineno, text) for text in texts if isinstance(text, str) and " " in text and text[0] != "-"
            )
        if not isinstance(node, ast.Call):
            continue
        name = name_of(node.func)
        if name in MADE and node.args:
            yield from ((node.lineno, text) for text in _choices(node.args[0]))
        elif (
            name == "plural"
            and len(node.args) == 2
            and isinstance(node.args[1], ast.Constant)
            and isinstance(node.args[1].value, str)
        ):
            yield from ((node.lineno, f"{{count:,}} {node.args[1].value}{ending}") for ending in ("", "s"))
        elif name in HELPED:
            yield from _help(node)


def faults_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of what is written as a message, but is no template with its values."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = name_of(node.func)
        prints = name in PRINTING or (name == "print" and any(keyword.arg == "file" for keyword in node.keywords))
        if (name in MADE or prints) and node.args and isinstance(node.args[0], ast.JoinedStr):
            parts = [part.value for part in node.args[0].values if isinstance(part, ast.Constant)]
            if not prints or len(_WORD.findall(" ".join(map(str, parts)))) > 1:
                yield node.lineno, f"{name} of an f-string"
        if name in MADE and len(node.args) > 1 and name not in OF_ANOTHER_SHAPE and not _has_star(node):
            for text in _choices(node.args[0]):
                if len(fields_of(text)) != len(node.args) - 1:
                    yield node.lineno, f"{len(node.args) - 1} values for {text}"
        if name == "fill" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            filled = node.func.value
            is_open = any(isinstance(value, ast.Starred) for value in node.args) or bool(node.keywords)
            if name_of(filled.func) in MADE and not is_open:
                for text in _choices(filled.args[0]):
                    if len(fields_of(text)) != len(node.args):
                        yield node.lineno, f"{len(node.args)} values for {text}"


def _has_star(call: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in call.args)


def name_of(function: ast.expr) -> str:
    """Return the last name of what is called."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _choices(argument: ast.expr) -> Iterator[str]:
    if isinstance(argument, ast.IfExp):
        yield from (*_choices(argument.body), *_choices(argument.orelse))
    elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value


def _help(call: ast.Call) -> Iterator[tuple[int, str]]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "metavar")):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and " " in argument.value.strip():
            yield call.lineno, argument.value


def _is_command(function: ast.FunctionDef) -> bool:
    taken = ast.unparse(function.args) + "".join(map(ast.unparse, function.decorator_list))
    return not function.name.startswith("_") and ("Option(" in taken or "Argument(" in taken)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
