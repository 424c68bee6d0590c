"""No regular expression of the product can be made to take more than linear time by the text that it reads."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.text.regex_ambiguity import problems

ROOT = Path(__file__).parents[3]
_CALLS = frozenset(("compile", "match", "search", "sub", "subn", "findall", "finditer", "fullmatch", "split"))
_MATCHES = frozenset(("match", "fullmatch", "pattern"))
ALLOWED = {
    "documents/app_strings.py:_PART": "looks at most 2,000 characters ahead",
    "documents/formats.py": "only matched at the beginning of a file",
    "documents/archives.py:_BOOK_PARTS": "only matched against the whole name of an entry",
    "documents/html.py:_CHARSET": "reads 4,096 bytes",
    "documents/json_strings.py:_TOKEN": "reads valid JSON, in which every string is closed",
    "documents/markdown.py:_LINK_TITLE": "reads the last 2,000 characters of a link",
    "localization.py:_IN_SCRIPTS": "reads scripts and pages of our own",
    "documents/markdown.py:_INLINE": "an address ends at the first bracket that another one opens",
    "documents/archives.py:_OPEN_PARTS": "only matched against the whole name of an entry",
    "documents/xml_nodes.py:_NODE": "reads well-formed XML, in which everything is closed",
    "tasks/insertion.py": "reads a translation, which is as long as the model allows",
    "text/sentences.py:LAST_WORD": "reads 32 characters",
    "web/reading_table.py:_PART": "reads patterns of our own",
    "data/near_duplicates.py:_MARKUP": "reads lines of training data, whose length is limited",
}
"""Patterns that the linter does not understand, each with what bounds its time."""


def patterns(path: Path, root: Path) -> Iterator[tuple[str, str | bytes, int, bool]]:
    """Yield where each pattern of a module stands, the pattern, its flags, and whether it is searched for."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    names = {
        call.value: target.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Assign)
        for target in call.targets
        if isinstance(target, ast.Name)
    }
    uses = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re.")):
            continue
        kind = ast.unparse(call.func).removeprefix("re.")
        if kind not in _CALLS:
            continue
        values = [_value(node, module) for node in (*call.args, *(keyword.value for keyword in call.keywords))]
        pattern = values[0].pattern if isinstance(values[0], re.Pattern) else values[0]
        if not isinstance(pattern, str | bytes):
            # it is made of what the function knows
            continue
        name = names.get(call, "")
        used = {attribute for owner, attribute in uses if owner == name} if name else {kind}
        flags = sum({int(value) for value in values if isinstance(value, re.RegexFlag)})
        yield f"{path.relative_to(root.parent)}:{name}", pattern, flags, not used or not used <= _MATCHES


def _value(node: ast.expr, module: Any) -> Any:
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module)))
    except Exception:
        return None


def test_no_pattern_is_ambiguous() -> None:
    found, seen, allowed = list[str](), 0, set[str]()
    for root in (ROOT / "runtime" / "src", ROOT / "src"):
        for path in sorted(root.rglob("*.py")):
            if not re.search(r"\bre\.", path.read_text(encoding="utf-8")):
                continue
            for where, pattern, flags, searches in patterns(path, root):
                seen += 1
                reasons = problems(pattern, flags, searches=searches)
                keys = [key for key in ALLOWED if key in where]
                allowed |= set(keys) if reasons else set()
                found += [f"{where}: {reason} in {pattern!r}" for reason in reasons if not keys]
    assert not found, "\n".join(found)
    assert seen > 150
    assert set(ALLOWED) == allowed, "these need no exception any more"


_LITERAL = re.compile(
    r"(?:[=(,:?]|return)\s*/((?![*/ ])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+)/([dgimsuvy]*)(?=[.,;)\]\s])"
)
"""A regular expression of JavaScript, where a value may stand."""
_CLASSES = {
    "White_Space": r"\s",
    "L": r"\w",
    "N": r"\d",
    "Nd": r"\d",
    "M": r"\u0300-\u036f",
    "Lowercase": "a-z",
    "Uppercase": "A-Z",
    "Lt": r"\u01c5",
    "Cc": r"\x00-\x1f",
    "Cf": r"\u200b-\u200f",
    "Co": r"\ue000-\uf8ff",
    "Cs": r"\ud800-\udfff",
    "Surrogate": r"\ud800-\udfff",
    "P": r"\u2010-\u2027",
    "Mn": r"\u0300-\u036f",
}


def patterns_of_javascript(source: str) -> Iterator[tuple[str, int]]:
    """Yield the patterns of a script as `re` writes them, and their flags."""
    for match in _LITERAL.finditer(source):
        pattern = re.sub(r"\\p\{(\w+)\}", lambda name: _CLASSES[name[1]], match[1])
        pattern = re.sub(r"\\u\{(\w+)\}", lambda point: f"\\U{int(point[1], 16):08x}", pattern)
        # outside of a set, a class that stands for a range is a set of its own
        pattern = re.sub(r"^(\\ud800-\\udfff)$", r"[\1]", pattern.replace("[^]", r"[\s\S]"))
        flags = (re.IGNORECASE if "i" in match[2] else 0) | (re.DOTALL if "s" in match[2] else 0)
        yield re.sub(r"\(\?<(?=[a-zA-Z])", "(?P<", pattern), int(flags)


def test_no_pattern_of_javascript_is_ambiguous() -> None:
    found, seen = list[str](), 0
    for path in sorted([*(ROOT / "runtime" / "src").rglob("*.js"), *(ROOT / "src").rglob("*.js")]):
        for pattern, flags in patterns_of_javascript(path.read_text(encoding="utf-8")):
            seen += 1
            found += [f"{path.relative_to(ROOT)}: {reason} in {pattern!r}" for reason in problems(pattern, flags)]
    assert not found, "\n".join(found)
    assert seen > 15


def test_patterns_of_javascript_are_found() -> None:
    source = r'const a = text.replace(/\s*\n\s*/g, " "), b = x / 2 / y; return /[/"]\/+x/u.test(`${a}`);'
    assert [pattern for pattern, _ in patterns_of_javascript(source)] == [r"\s*\n\s*", r'[/"]\/+x']
    assert problems(r"\s*\n\s*")


@pytest.mark.parametrize(
    "pattern",
    [
        r"[ \t]*(?P<start>(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3})[ \t]*-->[ \t]*"
        r"(?P<end>(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3})[^\n]*",
        r"(a+)+b",
        r"(?:[_@-]\w+)*$",
        r"x[ \t]*[ \t]*$",
        r"#+[-+0]*\d+x",
        r"[ \t]*\n",
        r"<[^>]*>",
        r"<!--.*?-->",
        r"`+.*?`+!",
        r"\s*/?>$",
    ],
)
def test_an_ambiguous_pattern_is_found(pattern: str) -> None:
    assert problems(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?<![ \t])[ \t]*+\n",
        r"<[^<>]*>",
        r"(?:[_@-][^\W_]+)*",
        r"\{[^{}]*\}",
        r"\d+(?:[.,]\d+)*",
        r"#[-+0]*+\d++x",
        r"\s\S*+\Z|\A\S*+\Z",
        r"(?<=[\s])[^\s=]+=",
    ],
)
def test_a_clear_pattern_is_none(pattern: str) -> None:
    assert not problems(pattern)
