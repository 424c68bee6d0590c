"""The plan of the house, read from the sources with `ast`: layers, cycles, sizes and types.

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
from tests.naming import banned_identifiers, banned_names, poor_docstrings

SOURCES = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "dikkat"

LAYERS = (
    ("config", "presets"),
    ("kernels", "evaluation"),
    ("nn",),
    ("models", "data"),
    ("torch_engine",),
    ("training", "explain", "run_directory"),
    ("tasks", "web"),
    ("interop", "lessons"),
    ("cli",),
)
LAYER_OF = {part: level for level, parts in enumerate(LAYERS) for part in parts}
SIDEWAYS = {("training", "run_directory")}
FACES = ("__init__", "__main__")  # the package itself: it shows what lies below and no part may import it
TORCH_FREE = ("config", "presets", "evaluation", "data")

MAX_FILE_LENGTH = 500
MAX_FUNCTION_LENGTH = 60
MIN_FRAGMENT_LENGTH = 50
BY_ENTRY_POINT = {
    "interop": {"dikkat.cli.import_checkpoint", "dikkat.cli.export"},
    "lessons": {"dikkat.cli.compare"},
}
"""Parts that an entry point finds, and the commands that are theirs."""
FRAGMENTS = {
    "dikkat.cli.data": "every place a command writes a table to is described there",
    "dikkat.interop.opus": "a foreign family is one file, whatever its length",
    "dikkat.kernels.gpu.probe": "it starts every kernel, each of which asks the file that imports it",
}
"""Short files with one importer that are right where they are, each with its reason."""

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


def imports_of_what_entry_points_find(sources: Path) -> list[str]:
    """`interop` and `lessons` are found by entry points and imported by commands alone, so that either could leave."""
    return [
        f"{edge.where}: {edge.importer.part} imports {edge.imported}"
        for edge in own_imports(sources)
        for other in [[*edge.imported.split("."), "__init__"][1]]
        if edge.importer.part != other and edge.importer.name not in BY_ENTRY_POINT.get(other, {edge.importer.name})
    ]


def fragments(sources: Path) -> list[str]:
    """A file of fewer than 50 lines with one importer in its own folder stands in that importer, where one looks."""
    importers: dict[str, set[str]] = {}
    for edge in own_imports(sources):
        importers.setdefault(edge.imported, set()).add(edge.importer.name)
    violations = []
    for name, module in read_modules(sources).items():
        folder, users = name.rpartition(".")[0], importers.get(name, set()) - {name}
        length = module.path.read_text(encoding="utf-8").count("\n")
        if module.path.stem in FACES or length >= MIN_FRAGMENT_LENGTH or len(users) != 1 or name in FRAGMENTS:
            continue
        user = users.pop()
        if folder in (user, user.rpartition(".")[0]):
            violations.append(f"{module.path}: {length} lines that {user} alone imports")
    return violations


def torch_where_it_is_unknown(sources: Path) -> list[str]:
    """Settings, evaluation and data know no torch: not by their own imports, nor by those of what they import."""
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
    """A file has at most 500 lines."""
    counts = {m.path: m.path.read_text(encoding="utf-8").count("\n") for m in read_modules(sources).values()}
    return [
        f"{path}: {count} lines, over {MAX_FILE_LENGTH}" for path, count in counts.items() if count > MAX_FILE_LENGTH
    ]


def long_functions(sources: Path) -> list[str]:
    """A function has at most 60 lines."""
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
    """A public function has a type for each argument and for its result."""
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
RULES: list[Rule] = [
    unknown_parts,
    upward_imports,
    circular_imports,
    imports_of_what_entry_points_find,
    fragments,
    torch_where_it_is_unknown,
    long_files,
    long_functions,
    untyped_public_functions,
    names_against_the_glossary,
    docstrings_without_a_sentence,
]


@pytest.mark.parametrize("rule", RULES)
def test_our_sources_keep_the_plan(rule: Rule) -> None:
    assert len(read_modules(SOURCES)) > 50
    violations = rule(SOURCES)
    assert not violations, "\n".join([sentence_of(rule), *violations])


def sentence_of(rule: Rule) -> str:
    """Return the sentence of the plan that a rule enforces."""
    return (rule.__doc__ or "").strip().split("\n")[0]


@pytest.mark.parametrize("rule", RULES)
def test_the_map_of_the_code_says_what_a_rule_enforces(rule: Rule) -> None:
    assert f"- {sentence_of(rule)}\n" in (SOURCES.parent / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_a_file_that_may_stay_short_is_there_and_has_a_reason() -> None:
    assert set(FRAGMENTS) <= set(read_modules(SOURCES))
    assert all(FRAGMENTS.values())


# what each rule must catch, and what it must let pass -----------------------------------------------------------------

PLANTED: list[tuple[str, Rule, dict[str, str], int]] = [
    ("part without a layer", unknown_parts, {"helpers.py": ""}, 1),
    ("folder without a layer", unknown_parts, {"utils/strings.py": ""}, 1),
    ("known parts", unknown_parts, {"nn/masks.py": "", "config.py": "", "__init__.py": "", "__main__.py": ""}, 0),
    ("upward", upward_imports, {"nn/a.py": "from dikkat.training.loop import train"}, 1),
    (
        "upward inside a function",
        upward_imports,
        {"nn/a.py": "def f() -> None:\n    import dikkat.cli.commands"},
        1,
    ),
    ("upward by a relative import", upward_imports, {"nn/a.py": "from ..models import encoder"}, 1),
    ("upward from the root", upward_imports, {"config.py": "from dikkat import cli", "cli/__init__.py": ""}, 1),
    ("upward for types only", upward_imports, {"data/a.py": "if TYPE_CHECKING:\n    import dikkat.tasks"}, 1),
    ("kernels know no data", upward_imports, {"kernels/a.py": "from dikkat.data.corpus import Corpus"}, 1),
    ("beside", upward_imports, {"models/a.py": "from dikkat.data.corpus import Corpus"}, 1),
    ("the arrow is one-way", upward_imports, {"torch_engine/a.py": "from dikkat.training.loop import train"}, 1),
    ("the package itself", upward_imports, {"data/a.py": "from dikkat import load"}, 1),
    (
        "downward, own part, the arrow, the face",
        upward_imports,
        {
            "training/a.py": "from dikkat.torch_engine.beam_search import b\nfrom dikkat.run_directory import r",
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
    (
        "the core knows no lesson",
        imports_of_what_entry_points_find,
        {"data/a.py": "import dikkat.lessons.phrasebook"},
        1,
    ),
    ("inside a function", imports_of_what_entry_points_find, {"web/a.py": "def f():\n    import dikkat.interop.a"}, 1),
    ("nor do they each other", imports_of_what_entry_points_find, {"interop/a.py": "from dikkat.lessons import b"}, 1),
    (
        "their commands and their own folder",
        imports_of_what_entry_points_find,
        {"cli/export.py": "import dikkat.interop.b", "interop/b.py": "import dikkat.interop.c"},
        0,
    ),
    (
        "another command",
        imports_of_what_entry_points_find,
        {"cli/train.py": "def f():\n    import dikkat.interop.b", "interop/b.py": ""},
        1,
    ),
    ("a fragment", fragments, {"nn/a.py": "import dikkat.nn.b", "nn/b.py": "x = 1\n" * 49}, 1),
    ("a fragment of a folder", fragments, {"nn/__init__.py": "import dikkat.nn.b", "nn/b.py": ""}, 1),
    ("50 lines and one importer", fragments, {"nn/a.py": "import dikkat.nn.b", "nn/b.py": "x = 1\n" * 50}, 0),
    (
        "two importers, none, one elsewhere",
        fragments,
        {
            "nn/a.py": "import dikkat.nn.b",
            "nn/b.py": "",
            "nn/c.py": "import dikkat.nn.b",
            "models/a.py": "import dikkat.nn.d",
            "nn/d.py": "",
        },
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
