"""`help()` of every public name says what it is, on which shapes, what it raises, and which paper stands behind it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.naming import is_sentence
from torch import Tensor, nn

PACKAGES = (
    "dikkat",
    "dikkat.lessons.classroom",
    "dikkat.evaluation",
    "dikkat.explain",
    "dikkat.explain.doctor",
    "dikkat.explain.head_analysis",
    "dikkat.kernels",
    "dikkat.nn",
    "dikkat.lessons.phrasebook",
    "dikkat.run_directory",
    "dikkat_runtime",
)
OURS = ("dikkat", "dikkat_runtime", "tests")
WITHOUT_PAPER = {
    "BlockSettings",
    "MapName",
    "NoPositions",
    "attention_positions",
    "causal_mask",
    "embedding_positions",
    "key_mask",
    "load_torch",
    "record_attention",
    "to_torch",
    "valid_length_mask",
}
"""Names of `dikkat.nn` that are nobody's invention."""
_PAPER = re.compile(r"\b[A-ZÀ-Þ][\w'’-]+ (?:et al\.|and [A-ZÀ-Þ][\w'’-]+)? ?\(?(?:19|20)\d\d\b|arxiv\.org/")
_SHAPE = re.compile(r"\((?:\.\.\.|\*?[A-Z]\w?)(?:, (?:\.\.\.|\*?[A-Z]\w?|\d))*,?\)|of any shape")


class Public(NamedTuple):
    """A public name, as `help()` finds it."""

    package: str
    name: str
    item: Any


def public_items() -> list[Public]:
    packages = [(package, importlib.import_module(package)) for package in PACKAGES]
    result = [(package, name, getattr(module, name)) for package, module in packages for name in module.__all__]
    return [Public(*entry) for entry in result if inspect.isclass(entry[2]) or inspect.isroutine(entry[2])]


ITEMS = public_items()
NN = [item for item in ITEMS if item.package == "dikkat.nn"]


def parts(item: Any) -> Iterator[tuple[str, Any, Callable[..., object]]]:
    """The functions that `help()` shows of a name: itself, or the public methods and properties of the class."""
    if inspect.isroutine(item):
        yield item.__name__, item, item
        return
    for name, member in vars(item).items():
        if name.startswith("_") and name != "__init__":
            continue
        function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(item, name))
        if inspect.isroutine(function) and function.__module__.split(".")[0] in (
            "dikkat",
            "dikkat_runtime",
            __name__.split(".")[0],
        ):
            yield name, member, function


def texts(item: Any) -> str:
    """All docstrings that `help()` shows of a name."""
    return "\n".join([inspect.getdoc(item) or "", *(inspect.getdoc(part) or "" for _, _, part in parts(item))])


def poor_sentences(item: Any) -> list[str]:
    """The name and its public parts whose docstring is not their own or begins with no sentence."""
    wrong = [] if _begins_well(item.__doc__) else [item.__name__]
    for name, _, function in parts(item) if inspect.isclass(item) else ():
        # a constructor and `forward` are told by their class
        if not (function.__doc__ is None and name in ("__init__", "forward")) and not _begins_well(function.__doc__):
            wrong.append(f"{item.__name__}.{name}")
    return wrong


def _begins_well(docstring: str | None) -> bool:
    return docstring is not None and is_sentence(docstring.strip().split("\n")[0])


def untold_errors(item: Any) -> list[str]:
    """The errors that a name raises itself, or by the private functions of its module, and does not name."""
    raised = {error for name, _, function in parts(item) for error in _errors_of(function, frozenset())}
    return sorted(error for error in raised if error not in texts(item))


def _errors_of(function: Callable[..., object], seen: frozenset[str]) -> set[str]:
    tree, module = _tree_of(function), inspect.getmodule(function)
    errors: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and (error := _name_of_error(node.exc)):
            errors.add(error)
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        helper = getattr(module, name, None) if name.startswith(("_", "check_")) else None
        if inspect.isfunction(helper) and name not in seen:
            errors |= _errors_of(helper, seen | {name})
    return errors


_MADE_BY = {"unreadable": "MissingInputError", "wrong_kind": "UsageError"}
"""Classes of errors by the functions that make them."""


def _name_of_error(raised: ast.expr | None) -> str:
    """The class of an error that is made where it is raised, with or without values for its template."""
    if not isinstance(raised, ast.Call):
        return ""
    if isinstance(raised.func, ast.Attribute) and raised.func.attr == "fill":
        return _name_of_error(raised.func.value)
    name = raised.func.id if isinstance(raised.func, ast.Name) else ""
    return _MADE_BY.get(name, name)


@cache
def _tree_of(function: Callable[..., object]) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except OSError:
        # made by a dataclass
        return ast.Module([], [])


def without_shapes(item: Any) -> list[str]:
    """The parameters of a function, or of a module's `forward`, that are tensors of no stated shape."""
    functions = [part for part in parts(item) if inspect.isroutine(item) or part[0] == "forward"]
    return [
        f"{item.__name__}: {parameter.name}"
        for _, _, function in functions
        for parameter in inspect.signature(function).parameters.values()
        if re.match(r"Tensor\b", str(parameter.annotation)) and not _SHAPE.search(texts(item))
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_begins_with_a_sentence_and_lists_what_is_there(package: str) -> None:
    module: ModuleType = importlib.import_module(package)
    assert _begins_well(module.__doc__)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.package}.{item.name}")
def test_help_begins_with_a_sentence_and_names_what_is_raised(item: Public) -> None:
    assert poor_sentences(item.item) == []
    assert untold_errors(item.item) == []


@pytest.mark.parametrize("item", NN, ids=lambda item: item.name)
def test_help_of_a_brick_states_its_shapes_and_its_source(item: Public) -> None:
    assert without_shapes(item.item) == []
    assert bool(_PAPER.search(texts(item.item))) != (item.name in WITHOUT_PAPER)


# what the checks must catch ------------------------------------------------------------------------------------------


class Inherits(nn.LayerNorm):
    pass


class Silent(nn.Module):
    """Halves a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() > 1:
            raise ValueError("too many dimensions")
        return x / 2

    def undocumented(self) -> int:
        return 1


def test_the_checks_catch_what_is_missing() -> None:
    assert poor_sentences(Inherits) == ["Inherits"]
    assert poor_sentences(Silent) == ["Silent.undocumented"]
    assert untold_errors(Silent) == ["ValueError"]
    assert without_shapes(Silent) == ["Silent: x"]
    assert not _PAPER.search(texts(Silent))
    assert _PAPER.search("as in Xiong et al. (2020)")
    assert _PAPER.search("root mean square (Zhang and Sennrich 2019)")
