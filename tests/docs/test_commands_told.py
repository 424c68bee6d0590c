"""Every command and every option that a message of the sources names exists, and is quoted where it is to be copied."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from tests.command_lines import PROGRAM_OPTIONS, command_of, commands, complaint, is_group, names

import dikkat
import dikkat_runtime.cli

SOURCES = sorted(path for package in (dikkat, dikkat_runtime.cli) for path in Path(package.__path__[0]).rglob("*.py"))
HELPERS = ("command", "piped")
ANYTHING = "…"
"""Stands for a word that is known only when the message is made."""
PROSE = {
    "trains",
    "runs",
    "has",
    "computes",
    "uses",
    "kafas",
    "does",
    "downloads",
    "reads",
    "knows",
    "cannot",
    "and",
    "in",
    "itself",
    "is",
}
"""What follows the name of the program in a sentence."""
FOREIGN = {"--local-dir", "--upgrade", "--extra-index-url"}
"""Options of other programs."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def told_by_helpers(tree: ast.Module) -> Iterator[list[str]]:
    """The words of each command that `dikkat_runtime.hints` is to print; a choice of two words gives two commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HELPERS:
            fixed = [choices_of(word) for word in node.args if not isinstance(word, ast.Starred)]
            yield from (list(words) for words in itertools.product(*fixed) if words)


def choices_of(word: ast.expr) -> list[str]:
    if isinstance(word, ast.IfExp):
        return choices_of(word.body) + choices_of(word.orelse)
    return [word.value if isinstance(word, ast.Constant) and isinstance(word.value, str) else ANYTHING]


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Every string that is no docstring, ANYTHING instead of what is filled in."""
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    left_out = docstrings | inner
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else ANYTHING for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def problems(words: list[str]) -> list[str]:
    """Why the command line would refuse these words."""
    while words and words[0] in PROGRAM_OPTIONS:
        words = words[1:]
    if len(words) > 1 and words[1] == ANYTHING and is_group(words[0]):
        kinds = [known[1] for known in commands() if known[0] == words[0]]
        return [problem for kind in kinds for problem in problems([words[0], kind, *words[2:]])]
    found = command_of(words)
    numbers = {name for option in found[0].options() if option.kind is int for name in option.names} if found else set()
    filled = ["1" if before in numbers and word == ANYTHING else word for before, word in pairwise(["", *words])]
    wrong = complaint(filled) if filled else ""
    return [wrong] if wrong else []


def unquoted(text: str) -> list[str]:
    """Commands within a text that are none, or that have arguments and so must be made by a helper."""
    found = []
    # the examples of a greeting stand in lines of their own: tests/unit/cli/test_program.py types them
    prose = re.sub(r"(?m)^(?:  (?:echo TEXT \| )?|All commands: )dikkat .*$", "", text)
    for match in re.finditer(r"\bdikkat ((?:[a-z-]+)(?: [a-z-]+)?)([^;.,)`]*)", prose):
        words, rest = match.group(1).split(), match.group(2)
        if not words or words[0] in PROSE:
            continue
        is_known = tuple(words) in commands() or (len(words) == 1 and words[0] in names())
        if not is_known or rest.strip():
            found.append(match.group())
    return found


def test_commands_for_copying_are_commands() -> None:
    told = [(path.name, words) for path in SOURCES for words in told_by_helpers(tree_of(path))]
    assert len(told) >= 8
    assert [(name, words, problems(words)) for name, words in told if problems(words)] == []


@cache
def texts_of_file(path: Path) -> list[str]:
    return list(texts_of(tree_of(path)))


def test_no_command_with_arguments_is_printed_without_quotes() -> None:
    assert {path.name: bad for path in SOURCES for text in texts_of_file(path) if (bad := unquoted(text))} == {}


def test_every_option_that_is_named_exists() -> None:
    known = {word for command in commands().values() for word in command.words()} | PROGRAM_OPTIONS | FOREIGN
    named = {
        (path.name, option)
        for path in SOURCES
        # where two dashes begin a colour of a page
        if not re.search("""var\\(--|style="--""", path.read_text(encoding="utf-8"))
        for text in texts_of_file(path)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)
    }
    assert len(named) > 30
    assert {(name, option) for name, option in named if option not in known} == set()


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ('command("translate", out)', False),
        ('command("translate")', True),
        ('command("translat", out)', True),
        ('command("train", kind, "--out", out, "--resume")', False),
        ('command("train", kind, "--out", out, "--resum")', True),
        ('piped("embed" if x else "generat", out)', True),
    ],
)
def test_a_wrong_command_is_seen(source: str, is_wrong: bool) -> None:
    found = [problem for words in told_by_helpers(ast.parse(source)) for problem in problems(words)]
    assert bool(found) == is_wrong


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ('f"try: dikkat translate {out}"', True),
        ('x = "write it anew with dikkat attend"', False),
        ('x = "see dikkat train lm; then go on"', False),
        ('x = "see dikkat trian"', True),
        ('x = "nothing that dikkat computes"', False),
    ],
)
def test_an_unquoted_command_is_seen(source: str, is_wrong: bool) -> None:
    assert bool([bad for text in texts_of(ast.parse(source)) for bad in unquoted(text)]) == is_wrong
