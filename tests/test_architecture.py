"""The rules of `docs/architecture.md`, read from the sources with `ast`: layers, cycles, sizes and types.

Every rule is a function from a folder of sources to its violations; each is shown on a small planted violation to be
able to fail, and then must find nothing in `src/dikkat`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tests.naming import banned_identifiers, banned_names, poor_docstrings, rule

SOURCES = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "dikkat"

LAYERS = (
    ("config", "presets"),
    ("kernels", "evaluation", "phrasebook"),
    ("nn",),
    ("models", "data"),
    ("decoding",),
    ("torch_engine",),
    ("training", "explain", "run_directory", "classroom"),
    ("tasks", "interop", "web"),
    ("cli", "server"),
)
LAYER_OF = {part: level for level, parts in enumerate(LAYERS) for part in parts}
SIDEWAYS = {("training", "run_directory")}
FACES = ("__init__", "__main__")  # the package itself: it shows what lies below and no part may import it
TORCH_FREE = ("config", "presets", "evaluation", "data")

MAX_FILE_LENGTH = 500
MAX_FUNCTION_LENGTH = 60

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its path, its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def part(self) -> str:
        """The part of the package right below its root; "__init__" for the root itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Import:
    """`importer` needs the file of the dotted name `imported`."""

    importer: Module
    imported: str
    where: str
    lazy: bool


@cache
def read_modules(sources: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted((sources / PACKAGE).rglob("*.py")):
        parts = list(path.relative_to(sources).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return modules


@cache
def read_imports(sources: Path) -> dict[str, list[Import]]:
    """The imports of every module, by its name."""
    modules = read_modules(sources)
    return {name: list(_imports_of(module, modules)) for name, module in modules.items()}


def own_imports(sources: Path) -> list[Import]:
    imports = [edge for edges in read_imports(sources).values() for edge in edges]
    return [edge for edge in imports if edge.imported.split(".")[0] == PACKAGE]


def _imports_of(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """Every import statement, those inside functions too; `from package import submodule` means the submodule."""
    remaining: list[tuple[ast.AST, bool]] = [(module.tree, False)]
    while remaining:
        node, lazy = remaining.pop()
        for name in _imported_names(node, module, modules):
            yield Import(module, name, module.at(node), lazy)
        if not isinstance(node, ast.expr):
            inside = lazy or isinstance(node, FunctionNode)
            remaining += [(child, inside) for child in ast.iter_child_nodes(node)]


def _imported_names(node: ast.AST, module: Module, modules: dict[str, Module]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        folder = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
        base = ".".join([*folder[: len(folder) - node.level + 1], *([node.module] if node.module else [])])
    submodules = {f"{base}.{alias.name}" for alias in node.names}
    return sorted({name if name in modules else base for name in submodules})


def functions_of(module: Module) -> Iterator[FunctionNode]:
    return (node for node in ast.walk(module.tree) if isinstance(node, FunctionNode))


# the rules ------------------------------------------------------------------------------------------------------------


def unknown_parts(sources: Path) -> list[str]:
    """A file or folder of the package that the plan does not name has no layer, and could import anything."""
    modules = read_modules(sources).values()
    return [f"{m.path}: {m.part} is in no layer" for m in modules if m.part not in LAYER_OF and m.part not in FACES]


def upward_imports(sources: Path) -> list[str]:
    """A file imports from lower layers and from its own part; L0 is one part."""
    violations = []
    for edge in own_imports(sources):
        part, other = edge.importer.part, [*edge.imported.split("."), "__init__"][1]
        if part in FACES or part == other or (part, other) in SIDEWAYS:
            continue
        if other in FACES:
            violations.append(f"{edge.where}: {part} imports the package itself")
        elif LAYER_OF.get(other, 99) > LAYER_OF.get(part, -1):
            violations.append(f"{edge.where}: {part} imports {other}, which lies above it")
        elif LAYER_OF[other] == LAYER_OF[part] and LAYER_OF[part] > 0:
            violations.append(f"{edge.where}: {part} imports {other}, which lies beside it")
    return violations


def circular_imports(sources: Path) -> list[str]:
    """No file needs itself through others, lazy imports included (the faces of the package excepted)."""
    modules = read_modules(sources)
    needs: dict[str, set[str]] = {name: set() for name in modules}
    for edge in own_imports(sources):
        if edge.importer.part not in FACES and edge.imported in modules:
            needs[edge.importer.name].add(edge.imported)
    return [f"{' -> '.join(cycle)}" for cycle in _cycles(needs)]


def _cycles(needs: dict[str, set[str]]) -> list[list[str]]:
    """One way round for every file that needs itself."""
    cycles = []
    for start in needs:
        paths = [[start]]
        seen: set[str] = set()
        while paths:
            path = paths.pop()
            for name in needs[path[-1]]:
                if name == start:
                    cycles.append([*path, name])
                elif name not in seen:
                    seen.add(name)
                    paths.append([*path, name])
    return cycles


def torch_where_it_is_unknown(sources: Path) -> list[str]:
    """text, evaluation and data know no torch: not by their own imports, nor by those of what they import."""
    modules = read_modules(sources)
    free = [name for name, module in modules.items() if module.part in TORCH_FREE]
    return [" -> ".join(chain) for name in free for chain in _torch_chains(name, read_imports(sources))]


def _torch_chains(start: str, imports: dict[str, list[Import]]) -> Iterator[list[str]]:
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop()
        for edge in imports[path[-1]]:
            if edge.imported.split(".")[0] == "torch":
                yield [*path, edge.where]
            elif not edge.lazy:
                # importing a.b.c runs the fronts of a.b too; the face of the package is tested by the command line
                fresh = {name for name in _with_parents(edge.imported) if name in imports} - seen
                seen |= fresh
                paths += [[*path, name] for name in sorted(fresh)]


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts) + 1)]


def long_files(sources: Path) -> list[str]:
    counts = {m.path: m.path.read_text(encoding="utf-8").count("\n") for m in read_modules(sources).values()}
    return [
        f"{path}: {count} lines, over {MAX_FILE_LENGTH}" for path, count in counts.items() if count > MAX_FILE_LENGTH
    ]


def long_functions(sources: Path) -> list[str]:
    violations = []
    for module in read_modules(sources).values():
        for function in functions_of(module):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > MAX_FUNCTION_LENGTH:
                violations.append(
                    f"{module.at(function)}: {function.name} has {lines} lines, over {MAX_FUNCTION_LENGTH}"
                )
    return violations


def untyped_public_functions(sources: Path) -> list[str]:
    violations = []
    for module in read_modules(sources).values():
        for function, is_method in _public_functions(module.tree):
            missing = _untyped_parts(function, is_method)
            if missing:
                violations.append(f"{module.at(function)}: {function.name} has no type for {', '.join(missing)}")
    return violations


def _public_functions(node: ast.Module | ast.ClassDef) -> Iterator[tuple[FunctionNode, bool]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public_functions(child)
        elif isinstance(child, FunctionNode) and (not child.name.startswith("_") or child.name.endswith("__")):
            yield child, isinstance(node, ast.ClassDef)


def _untyped_parts(function: FunctionNode, is_method: bool) -> list[str]:
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][1 if is_method and not static else 0 :]
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    missing = [a.arg for a in [*positional, *arguments.kwonlyargs, *variadic] if a.annotation is None]
    return missing + (["the result"] if function.returns is None else [])


def names_against_the_glossary(sources: Path) -> list[str]:
    """Names of variables, functions, classes and files are the field's terms, not those of tests/naming.py.

    So are those in JavaScript, its types and C.
    """
    violations = []
    for module in read_modules(sources).values():
        tree = ast.parse(f"{module.path.stem} = 0") if module.path.stem != "__init__" else ast.Module([], [])
        violations += [f"{module.path}: the file is called {name}" for _, name in banned_names(tree)]
        violations += [f"{module.path}:{line}: {name}" for line, name in banned_names(module.tree)]
    for path in sorted(path for path in sources.rglob("*") if path.suffix in (".js", ".ts", ".c", ".h")):
        violations += [f"{path}: the file is called {name}" for _, name in banned_identifiers(f"int {path.stem};")]
        names = banned_identifiers(path.read_text(encoding="utf-8"))
        violations += [f"{path}:{line}: {name}" for line, name in names]
    return violations


def docstrings_without_a_sentence(sources: Path) -> list[str]:
    """A public docstring begins with a whole sentence."""
    modules = read_modules(sources).values()
    return [f"{m.path}:{line}: {name}" for m in modules for line, name in poor_docstrings(m.tree)]


Rule = Callable[[Path], list[str]]
RULES: dict[Rule, tuple[str, ...]] = {
    unknown_parts: ("architecture.md", "named"),
    upward_imports: ("architecture.md", "layers"),
    circular_imports: ("architecture.md", "circles"),
    torch_where_it_is_unknown: ("architecture.md", "border"),
    long_files: ("architecture.md", "files"),
    long_functions: ("architecture.md", "functions"),
    untyped_public_functions: ("architecture.md", "types"),
    names_against_the_glossary: ("glossary.md", "words", "limits"),
    docstrings_without_a_sentence: ("glossary.md", "docstrings"),
}
"""Each rule, and the page and names of the sentences that it enforces."""


def sentences_of(check: Rule) -> str:
    page, *names = RULES[check]
    return "\n".join(rule(page, name) for name in names)


@pytest.mark.parametrize("check", RULES)
def test_our_sources_keep_the_rules(check: Rule) -> None:
    assert len(read_modules(SOURCES)) > 50
    violations = check(SOURCES)
    assert not violations, "\n".join([sentences_of(check), *violations])


def test_a_failing_rule_prints_its_sentence() -> None:
    assert sentences_of(long_functions) == "A function has at most 60 lines. (docs/architecture.md)"
    assert all(sentences_of(check) for check in RULES)
    assert f"at most {MAX_FILE_LENGTH} lines" in sentences_of(long_files)
    assert f"at most {MAX_FUNCTION_LENGTH} lines" in sentences_of(long_functions)


# what each rule must catch, and what it must let pass -----------------------------------------------------------------

PLANTED: list[tuple[str, Rule, dict[str, str], int]] = [
    ("part without a layer", unknown_parts, {"helpers.py": ""}, 1),
    ("folder without a layer", unknown_parts, {"utils/strings.py": ""}, 1),
    ("known parts", unknown_parts, {"nn/masks.py": "", "config.py": "", "__init__.py": "", "__main__.py": ""}, 0),
    ("upward", upward_imports, {"nn/a.py": "from dikkat.training.loop import train"}, 1),
    ("upward inside a function", upward_imports, {"nn/a.py": "def f() -> None:\n    import dikkat.cli.main"}, 1),
    ("upward by a relative import", upward_imports, {"nn/a.py": "from ..models import encoder"}, 1),
    ("upward from the root", upward_imports, {"config.py": "from dikkat import cli", "cli/__init__.py": ""}, 1),
    ("upward for types only", upward_imports, {"data/a.py": "if TYPE_CHECKING:\n    import dikkat.tasks"}, 1),
    ("kernels know no data", upward_imports, {"kernels/a.py": "from dikkat.data.corpus import Corpus"}, 1),
    ("beside", upward_imports, {"models/a.py": "from dikkat.data.corpus import Corpus"}, 1),
    ("the arrow is one-way", upward_imports, {"decoding/a.py": "from dikkat.training.loop import train"}, 1),
    ("the package itself", upward_imports, {"data/a.py": "from dikkat import load"}, 1),
    (
        "downward, own part, the arrow, the face",
        upward_imports,
        {
            "training/a.py": "from dikkat.decoding.beam import b\nfrom dikkat.run_directory import r",
            "nn/a.py": "from dikkat.nn.masks import m\nfrom .masks import m\nimport torch\nimport dikkat_runtime.hints",
            "config.py": "from dikkat_runtime.hints import nearest",
            "__init__.py": "from dikkat.tasks import load",
        },
        0,
    ),
    ("two files", circular_imports, {"nn/a.py": "import dikkat.nn.b", "nn/b.py": "from dikkat.nn import a"}, 2),
    (
        "three files, one lazy",
        circular_imports,
        {
            "nn/a.py": "from dikkat.nn.b import x",
            "nn/b.py": "from .c import x",
            "nn/c.py": "def f() -> None:\n    from dikkat.nn.a import x",
        },
        3,
    ),
    (
        "through the folder's own front",
        circular_imports,
        {"nn/__init__.py": "from dikkat.nn.a import x", "nn/a.py": "from dikkat.nn import y"},
        2,
    ),
    (
        "a diamond is no cycle",
        circular_imports,
        {"nn/a.py": "import dikkat.nn.b, dikkat.nn.c", "nn/b.py": "import dikkat.nn.c", "nn/c.py": ""},
        0,
    ),
    ("torch in evaluation", torch_where_it_is_unknown, {"evaluation/a.py": "def f() -> None:\n    import torch.nn"}, 1),
    ("torch in data", torch_where_it_is_unknown, {"data/a.py": "import numpy\nimport torch"}, 1),
    (
        "torch through another",
        torch_where_it_is_unknown,
        {"data/a.py": "from dikkat.kernels.processor import p", "kernels/processor.py": "import torch"},
        1,
    ),
    (
        "torch through a front",
        torch_where_it_is_unknown,
        {"data/a.py": "import dikkat.kernels.probe", "kernels/__init__.py": "import torch", "kernels/probe.py": ""},
        1,
    ),
    ("no torch", torch_where_it_is_unknown, {"text/a.py": "import torchless", "nn/a.py": "import torch"}, 0),
    ("501 lines", long_files, {"nn/a.py": "x = 1\n" * 501}, 1),
    ("500 lines", long_files, {"nn/a.py": "x = 1\n" * 500}, 0),
    ("61 lines", long_functions, {"nn/a.py": "def f() -> None:\n" + "    x = 1\n" * 60}, 1),
    ("60 lines", long_functions, {"nn/a.py": "def f() -> None:\n" + "    x = 1\n" * 59}, 0),
    ("a long method", long_functions, {"nn/a.py": "class A:\n  async def f(self):\n" + "    x = 1\n" * 60}, 1),
    ("no result type", untyped_public_functions, {"nn/a.py": "def f(x: int):\n    pass"}, 1),
    ("no argument type", untyped_public_functions, {"nn/a.py": "def f(x, *, y: int) -> None:\n    pass"}, 1),
    ("no type of a keyword", untyped_public_functions, {"nn/a.py": "def f(*, y=1) -> None:\n    pass"}, 1),
    ("no type of the rest", untyped_public_functions, {"nn/a.py": "def f(*x, **y) -> None:\n    pass"}, 1),
    (
        "a method",
        untyped_public_functions,
        {"nn/a.py": "class A:\n    def __init__(self, x) -> None:\n        pass"},
        1,
    ),
    (
        "a static method",
        untyped_public_functions,
        {"nn/a.py": "class A:\n    @staticmethod\n    def f(x) -> None:\n        pass"},
        1,
    ),
    (
        "typed or private",
        untyped_public_functions,
        {"nn/a.py": "def _f(x):\n    pass\nclass A:\n    def f(self, x: int, *y: int) -> None:\n        pass"},
        0,
    ),
    ("a variable", names_against_the_glossary, {"data/a.py": "for each in ():\n    pass"}, 1),
    ("a part of a name", names_against_the_glossary, {"data/a.py": "def best_place(placesOf):\n    is_told = 1"}, 3),
    (
        "a class",
        names_against_the_glossary,
        {"data/a.py": "class BigRoom:\n    def f(self):\n        self.found = 1"},
        2,
    ),
    ("a file", names_against_the_glossary, {"data/story.py": ""}, 1),
    ("a file of JavaScript", names_against_the_glossary, {"web/honesty.js": "const a = { place: 1 };"}, 2),
    ("words of JavaScript", names_against_the_glossary, {"web/a.js": 'say("a place"); // found in its place'}, 0),
    (
        "names that are used, longer words",
        names_against_the_glossary,
        {"data/a.py": "replaced = b.found\nFileNotFoundError"},
        0,
    ),
    ("a riddle", docstrings_without_a_sentence, {"data/a.py": 'def f() -> int:\n    """Of a thing: what it is."""'}, 1),
    ("no capital", docstrings_without_a_sentence, {"data/a.py": '"""the data."""\nclass A:\n    """It. """'}, 1),
    ("no full stop", docstrings_without_a_sentence, {"data/a.py": 'class A:\n    """A thing"""'}, 1),
    (
        "sentences",
        docstrings_without_a_sentence,
        {"data/a.py": '"""Read data."""\ndef f() -> None:\n    """`x` is read."""\ndef _g():\n    """what"""'},
        0,
    ),
]


@pytest.mark.parametrize(("rule", "files", "expected"), [case[1:] for case in PLANTED], ids=[c[0] for c in PLANTED])
def test_a_rule_catches_what_is_planted(rule: Rule, files: dict[str, str], expected: int, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert len(rule(tmp_path)) == expected


def test_every_rule_has_a_planted_violation() -> None:
    assert {case[1] for case in PLANTED if case[3]} == set(RULES)
