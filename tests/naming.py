"""The rules of `docs/glossary.md` on names and docstrings, as functions from a syntax tree or source to violations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_WORDS = """
place places room rooms found told tell tells wording story stories portrait portraits patient patients wordless honesty
diary trunk behind beside mended stretch stretches gathered lent bystanders roof lengthened rectifies turned densely
"""
_NAMES = """
each made given learned moved apart around at_once sides Marks Pace STRETCH few_rows fewest_rows takes_places is_wide
keep_away are_looking explicit_attention part_of learns of_hidden of_weight draws Copies Projection narrow wide follow
_let_model_use _look _Plan LARGE _LARGE FEW _FEW _take_up sentences_at_once batches_at_once
"""

BANNED_WORDS = frozenset(_WORDS.split())
"""Words that no name holds, as a part of snake_case or CamelCase."""
BANNED_NAMES = frozenset(_NAMES.split())
"""Names that are banned as a whole."""
BANNED_BEGINNINGS = ("MOST", "LEAST", "LONGEST", "SHORTEST", "FEWEST", "LARGEST", "SMALLEST")
"""First words of no constant: limits are `MAX_` and `MIN_`."""
BANNED_OUTSIDE_PYTHON = BANNED_NAMES | {"Meeting", "meet", "Finish", "Ahead", "ask", "seen", "narrow", "wide"}
"""Names that are banned as a whole in C and JavaScript."""
_NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
"""Comments and strings of C and JavaScript."""
FORBIDDEN_OPENINGS = ("Of ", "The same", "By the ", "What is", "What ", "Whether ", "Where ", "How ", "Which ", "As ")
"""Beginnings of a docstring that is no whole sentence."""


def rule(page: str, name: str) -> str:
    """Return the sentence of a rule from a page of `docs/`, which a failing test prints."""
    text = (Path(__file__).resolve().parents[1] / "docs" / page).read_text(encoding="utf-8")
    [sentence] = re.findall(rf"^- \*\*{name}\*\*: (.+)$", text, re.MULTILINE)
    return f"{sentence} (docs/{page})"


def words_of(name: str) -> list[str]:
    """Return the lower-case words of a name in snake_case or CamelCase."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name))
    return [word for word in spaced.lower().split("_") if word]


def banned_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of every binding whose name is banned or holds a banned word."""
    for node in ast.walk(tree):
        for name in _bound_names(node):
            is_limit = name.isupper() and name.lstrip("_").split("_")[0] in BANNED_BEGINNINGS
            if is_limit or name in BANNED_NAMES or BANNED_WORDS.intersection(words_of(name)):
                yield getattr(node, "lineno", 1), name


def _bound_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    if isinstance(node, ast.arg):
        return [node.arg]
    return [node.asname] if isinstance(node, ast.alias) and node.asname else []


def banned_identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every identifier in C or JavaScript that is banned or holds a banned word."""
    code = _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    for number, line in enumerate(code.split("\n"), start=1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            if name in BANNED_OUTSIDE_PYTHON or BANNED_WORDS.intersection(words_of(name)):
                yield number, name


def poor_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of the module and each public class or function whose docstring begins with no sentence."""
    for name, node in [("the module", tree), *_public(tree)]:
        docstring = ast.get_docstring(node)
        if docstring is not None and not is_sentence(docstring.split("\n")[0]):
            yield getattr(node, "lineno", 1), name


def _public(
    node: ast.Module | ast.ClassDef,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            yield child.name, child
            if isinstance(child, ast.ClassDef):
                yield from _public(child)


def is_sentence(line: str) -> bool:
    """Return whether a first line begins with a capital or a name in code, has a full stop, and opens as it may."""
    begins = line[:1].isupper() or line[:1] == "`" or line.startswith("dikkat")
    return begins and ("." in line or line.endswith((":", "::"))) and not line.startswith(FORBIDDEN_OPENINGS)
