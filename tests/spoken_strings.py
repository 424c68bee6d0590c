"""Find every string of the sources that a command may print, as an entry of a catalog of messages.

An f-string becomes a text with numbered braces for what is filled in: `{path}: is a folder` is "{0}: is a folder".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from dikkat_runtime import errors

SOURCES = {
    "dikkat": Path(__file__).resolve().parents[1] / "src/dikkat",
    "dikkat_runtime": Path(__file__).resolve().parents[1] / "runtime/src/dikkat_runtime",
}
"""The folder of each package."""

SILENT = (
    # other languages than that of the messages
    "data/languages.py", "text/sentences.py", "text/negation.py",
    # for whoever writes Python
    "nn/", "kernels/", "models/", "lessons/classroom/", "torch_engine/", "evaluation/",
    "native/", "engine/stepwise.py", "engine/decoding.py",
    # answers to programs over HTTP, in the words of their interfaces
    "server/",
    # have a catalog or their wording in every language of their own
    "explain/messages.py", "explain/report/messages.py", "explain/report/reader_messages.py",
    "explain/head_analysis/messages.py", "explain/page/",
    # tables of names and codes, HTML and CSS
    "data/languages.py", "data/table_headers.py", "documents/html.py", "explain/report/html.py",
    "explain/report/run_page.py", "explain/pictures.py",
    "explain/drawing/chart.py", "explain/drawing/svg.py", "documents/xliff.py",
    # what is kept in a run: its card, its measurements
    "tasks/classification/train.py", "tasks/language_model/train.py", "tasks/translation/card.py",
    "tasks/common/card.py",
    "tasks/confidence_features.py",
    # the readme of an exported model
    "interop/ctranslate2/writing.py",
    "interop/onnx_export/readme.py",
    "interop/keras_export/writing.py",
    # programs of their own, without a catalog of messages
    "interop/keras_export/translate.py", "interop/keras_export/generate.py",
    # pictures, which are drawn in English
    "explain/plots.py", "lessons/comparison/picture.py",
    "explain/drawing/position_table.py",
)  # fmt: skip
"""Files and folders whose strings no command prints, but for those of an error that a user meets."""
SPOKEN_ALL_THE_SAME = ("server/running.py", "server/settings.py", "server/models.py", "server/keys.py")
FOREIGN = frozenset(
    (
        "Show this message and exit.",
        "Install completion for the current shell.",
        "Show completion for the current shell, to copy it or customize the installation.",
        "Usage:",
        "Options",
        "Commands",
        "Arguments",
        "required",
        "default: {0}",
        "Missing argument '{0}'",
        "Missing option '{0}'",
        "No such command '{0}'",
        "No such option: {0}",
        "Option '{0}' requires an argument",
        "Option '{0}' does not take a value",
        "Invalid value for '{0}': {1}",
        "Got unexpected extra argument(s) ({0})",
        "'{0}' is not one of {1}",
        "No such file or directory",
        "Permission denied",
        "Is a directory",
        "Not a directory",
        "File exists",
        "No space left on device",
        "Read-only file system",
        "Input/output error",
        "Disk quota exceeded",
        "File too large",
        "Bad file descriptor",
        "Connection reset by peer",
        "Address already in use",
        "Input should be a valid integer, unable to parse string as an integer",
        "input should be a valid integer, unable to parse string as an integer",
        "input should be a valid integer, unable to parse string as an integer, not {0}",
        "Input should be a valid number, unable to parse string as a number",
        "input should be a valid number, unable to parse string as a number",
        "input should be a valid number, unable to parse string as a number, not {0}",
        "Input should be a valid integer",
        "input should be a valid integer",
        "input should be a valid integer, not {0}",
        "Input should be a valid integer, got a number with a fractional part",
        "input should be a valid integer, got a number with a fractional part",
        "input should be a valid integer, got a number with a fractional part, not {0}",
        "Input should be a valid number",
        "input should be a valid number",
        "input should be a valid number, not {0}",
        "Input should be a valid string",
        "input should be a valid string",
        "input should be a valid string, not {0}",
        "Input should be a valid boolean",
        "input should be a valid boolean",
        "input should be a valid boolean, not {0}",
        "Input should be a finite number",
        "input should be a finite number",
        "input should be a finite number, not {0}",
        "Input should be a valid dictionary or instance of {0}",
        "Input should be greater than {0}",
        "input should be greater than {0}",
        "input should be greater than {0}, not {1}",
        "Input should be greater than or equal to {0}",
        "input should be greater than or equal to {0}",
        "input should be greater than or equal to {0}, not {1}",
        "Input should be less than {0}",
        "input should be less than {0}",
        "input should be less than {0}, not {1}",
        "Input should be less than or equal to {0}",
        "input should be less than or equal to {0}",
        "input should be less than or equal to {0}, not {1}",
        "Input should be {0}",
        "input should be {0}",
        "input should be {0}, not {1}",
        "{0} (Possible options: {1})",
        "No such command '{0}'. Did you mean '{1}'?",
        "field required",
        "Field required",
    )
)
"""Texts of pydantic and the operating system that a command passes on."""
USERS_ERRORS = {error.__name__ for error in vars(errors).values() if isinstance(error, type)}
PROGRAMMERS_ERRORS = {"ValueError", "TypeError", "IndexError", "RuntimeError", "AttributeError", "AssertionError"}
NOT_MESSAGES = re.compile(
    "|".join(
        (
            r"^[.<&]", r"\n.*\{\{", r"^\{\{\"", "width: 100%", "preserve",  # HTML, CSS, XML, JSON
            r"^[^a-z]*$", r"^# \{0\}", r"^\|dy", r"^--set training", r"float \| None",  # formulas, Markdown, code
            r"^dikkat(-runtime)?:? (\{0\}|serve)$",  # the name of the program alone
            "^label labels", "^text texts",  # words of headings in many languages
            "^de la$",  # articles of French
            "^const ", "worker-src", "made by dikkat$",  # of files for JavaScript
            r"^--language <str>$", "^complete -c",  # the name of an option, a script of a shell
            r"^%d of %d", r"^Value error,$", "^chrF of at least",  # of a log, of a library, of a file
            # what libraries say where memory is too small
            r"^can't allocate", "^cannot allocate", "^bad allocation$", "^size calc", "^failed to map",
        )
    )
)  # fmt: skip
"""Strings of several words that no command prints."""
NOT_TEXT = {"compile", "sub", "fullmatch", "match", "search", "findall", "finditer", "import_module", "TypeVar"}
"""Functions whose arguments are patterns or names."""
_WORD = re.compile(r"[A-Za-z]{2,}")
_FIELD = re.compile(r"\{[a-z_]\w*(?::[^{}]*)?\}")
_FILLED_IN = re.compile(r"\{\d+\}")


@dataclass(frozen=True, slots=True)
class SpokenString:
    """An entry, and where it is written."""

    text: str
    where: str


@cache
def spoken_strings(package: str) -> list[SpokenString]:
    """Return the entries of a package, each once, in the order of its files."""
    entries: dict[str, SpokenString] = {}
    folder = SOURCES[package]
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        tree = tree_of(path)
        is_silent = name.startswith(SILENT) and name not in SPOKEN_ALL_THE_SAME
        # the ValueError of a setting is what its user is told
        ignored = NOT_TEXT if name.startswith("config/") else PROGRAMMERS_ERRORS | NOT_TEXT
        for line, text in strings_of(tree, name.startswith("cli/"), None if is_silent else ignored):
            entries.setdefault(text, SpokenString(text, f"{name}:{line}"))
    return list(entries.values())


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def every_string(package: str) -> set[str]:
    """Return every string of a package, of any length: what an entry of a catalog must be one of."""
    trees = (tree_of(path) for path in SOURCES[package].rglob("*.py"))
    texts = (text for tree in trees for node in ast.walk(tree) for text in [template(node)])
    return {text.strip("\n ") for text in texts if text}


def strings_of(tree: ast.Module, is_command: bool, ignored: Collection[str] | None) -> Iterator[tuple[int, str]]:
    """Yield line and entry of every string that is no argument of the functions `ignored`; of docstrings, those of
    a command's functions, which its help shows.

    Without `ignored`, only what is in the call of an error that a user meets.
    """
    parents, nodes = dict[int, ast.AST](), list[ast.AST]([tree])
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            parents[id(child)] = node
            nodes.append(child)
    for node in nodes:
        if is_command and isinstance(node, ast.FunctionDef) and _is_command(node):
            yield from ((node.lineno, paragraph) for paragraph in paragraphs(ast.get_docstring(node) or ""))
        if isinstance(node, ast.Call):
            yield from _named(node)
        if isinstance(node, ast.JoinedStr | ast.Constant) and not _is_no_message(node, parents, ignored):
            text = (template(node) or "").strip("\n ")
            if _has_words(text) and not NOT_MESSAGES.search(text):
                yield node.lineno, text


def _is_command(function: ast.FunctionDef) -> bool:
    taken = ast.unparse(function.args) + "".join(map(ast.unparse, function.decorator_list))
    return not function.name.startswith("_") and ("Option(" in taken or "Argument(" in taken)


def _has_words(text: str) -> bool:
    """Return whether a string holds several words, as a message does, beside what is filled in."""
    return len(_WORD.findall(_FILLED_IN.sub("", text))) >= 2 and " " in text.strip()


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def template(node: ast.AST) -> str | None:
    """Return the text of a string or an f-string, with numbered braces; None for anything else."""
    if isinstance(node, ast.Constant):
        return _escaped(node.value) if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts, filled_in = list[str](), 0
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value).replace("{", "{{").replace("}", "}}"))
        else:
            parts.append(f"{{{filled_in}}}")
            filled_in += 1
    return "".join(parts)


def _escaped(text: str) -> str:
    """Return a plain string with its braces doubled, or with numbers in them where it is one for `str.format`."""
    if _FIELD.search(text):
        numbers = count()
        return _FIELD.sub(lambda field: f"{{{next(numbers)}}}", text)
    return text.replace("{", "{{").replace("}", "}}")


def _named(call: ast.Call) -> Iterator[tuple[int, str]]:
    """What is written to be spoken, however short: `localized("word")`, and counts such as `plural(count, "line")`."""
    name = _name(call.func)
    strings = [argument for argument in call.args if isinstance(argument, ast.Constant | ast.JoinedStr)]
    if name == "localized" and call.args:
        nodes = list(ast.walk(call.args[0]))
        within = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            text = None if id(node) in within else template(node)
            if text and _WORD.search(_FILLED_IN.sub("", text)):
                yield call.lineno, text.strip("\n ")
    noun = strings[-1].value if strings and isinstance(strings[-1], ast.Constant) else None
    if name in ("plural", "_many") and isinstance(noun, str):
        yield call.lineno, f"{{0}} {noun}"
        yield call.lineno, f"{{0}} {noun}s"


def _is_no_message(node: ast.AST, parents: Mapping[int, ast.AST], ignored: Collection[str] | None) -> bool:
    parent = parents.get(id(node))
    if isinstance(parent, ast.JoinedStr | ast.Expr):  # a part of an f-string, a docstring
        return True
    while parent is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.Call):
            name = _name(parent.func)
            return name not in USERS_ERRORS if ignored is None else name in ignored
        if isinstance(parent, ast.Subscript) or (isinstance(parent, ast.keyword) and parent.arg == "metavar"):
            return True
        parent = parents.get(id(parent))
    return ignored is None


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
