"""Pages whose snippets run: their fenced blocks, and one process that runs those of a page in order.

A python block runs in the namespace of the blocks before it. A console block runs if what it prints stands below it;
its lines are commands of `dikkat`. The next fenced block, if it is a text block, is what a block must print.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """Of its first line of text, from 1."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block to run, and what stands below it."""

    page: str
    language: str
    text: str
    line: int
    printed: str | None
    """None where the page shows no output."""


def blocks(page: Path) -> list[Block]:
    """Fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(result[1], result[2], text.count("\n", 0, result.start(2)) + 1)  # a line break is "\n" only
        for result in _FENCE.finditer(text)
    ]


def snippets(page: Path, *languages: str) -> list[Snippet]:
    """The blocks of a page in one of `languages`, in order, each with the text block that follows it."""
    result = blocks(page)
    following = [*result[1:], Block("", "", 0)][: len(result)]
    return [
        Snippet(page.name, block.language, block.text, block.line, after.text if after.language == "text" else None)
        for block, after in zip(result, following, strict=True)
        if block.language in languages
    ]


def links(page: Path) -> list[str]:
    """Where the links and pictures of a page lead, as written; at least one."""
    result = _LINK.findall(page.read_text(encoding="utf-8"))
    assert result, page
    return result


def broken_links(page: Path) -> list[str]:
    """The links of a page that lead to no file."""
    return [link for link in links(page) if not (page.parent / link).exists()]


def commands(console: str) -> list[list[str]]:
    """The words of every `$ …` line of a console block."""
    return [shlex.split(line.removeprefix("$ ")) for line in console.split("\n") if line.startswith("$ ")]


def outputs(found: Sequence[Snippet], folder: Path, *, other_rounding: bool = False) -> list[str]:
    """What each snippet prints, run one after the other in one new process with one thread, in `folder`.

    With `other_rounding` its python computes as another processor would.
    """
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{_python_path()}{os.pathsep}{ROOT}",
    }
    done = subprocess.run(
        [sys.executable, __file__, *["other rounding"] * other_rounding],
        input=json.dumps([asdict(snippet) for snippet in found]),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    printed: list[str] = json.loads(done.stdout)
    return printed


def _other_rounding() -> AbstractContextManager[object]:
    # loads torch, which the page may not need
    from tests.docs.other_rounding import OtherRounding

    return OtherRounding()


def _python_path() -> str:
    from tests.python_path import PYTHON_PATH

    return PYTHON_PATH


def _run_all(found: Sequence[Snippet]) -> list[str]:
    namespace: dict[str, object] = {"__name__": "__main__"}
    return [_run_python(each, namespace) if each.language == "python" else _run_console(each) for each in found]


def _run_python(snippet: Snippet, namespace: dict[str, object]) -> str:
    printed = io.StringIO()
    # blank lines before it, so that an error names the line of the page
    code = compile("\n" * (snippet.line - 1) + snippet.text, snippet.page, "exec")
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def _run_console(snippet: Snippet) -> str:
    printed = ""
    for program, *arguments in commands(snippet.text):
        if program != "dikkat":
            raise ValueError(f"{snippet.page}:{snippet.line}: a page runs the commands of dikkat only, not {program}")
        done = subprocess.run(
            [sys.executable, "-m", "dikkat", *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
        printed += done.stdout
    return printed


if __name__ == "__main__":
    todo = [Snippet(**each) for each in json.load(sys.stdin)]
    with _other_rounding() if sys.argv[1:] else nullcontext():
        printed = _run_all(todo)
    print(json.dumps(printed))
