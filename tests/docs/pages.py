"""Pages whose snippets run: their fenced blocks, and a process of its own that runs those of a page in order.

Each is a copy of one that has loaded torch, which takes longer than most pages, and nothing of ours.

A python block runs in the namespace of the blocks before it. A console block runs if what it prints stands below it;
its lines are commands of `dikkat`. The next fenced block, if it is a text block, is what a block must print.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

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
    """What each snippet prints, run one after the other in one process with one thread, in `folder`.

    With `other_rounding` its python computes as another processor would.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    page = {"snippets": [asdict(item) for item in found], "folder": str(folder), "other_rounding": other_rounding}
    server.stdin.write(json.dumps(page) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    if "printed" not in answer:
        raise AssertionError(answer["error"])
    printed: list[str] = answer["printed"]
    return printed


@cache
def _server() -> subprocess.Popen[str]:
    """The process that is copied; it ends with this one, which then closes its input."""
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{_python_path()}{os.pathsep}{ROOT}",
    }
    command = [sys.executable, __file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _serve() -> None:
    importlib.import_module("torch")
    for line in sys.stdin:
        print(json.dumps(_in_copy(json.loads(line))), flush=True)


def _in_copy(page: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as answers:
        child = os.fork()
        if not child:
            _become(page, answers)
        _, status = os.waitpid(child, 0)
        answers.seek(0)
        lost = {"error": f"the page ended its process with {os.waitstatus_to_exitcode(status)}"}
        answer: dict[str, Any] = json.loads(answers.read() or json.dumps(lost))
        return answer


def _become(page: dict[str, Any], answers: TextIO) -> None:
    """Run a page as far as the end of this process."""
    answer: dict[str, str | list[str]]
    try:
        os.chdir(page["folder"])
        with _other_rounding() if page["other_rounding"] else nullcontext():
            answer = {"printed": _run_all([Snippet(**item) for item in page["snippets"]])}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    answers.write(json.dumps(answer))
    answers.flush()
    os._exit(0)


def _other_rounding() -> AbstractContextManager[object]:
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
    _serve()
