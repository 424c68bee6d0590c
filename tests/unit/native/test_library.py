"""Compiling, caching and doing without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dikkat.native import library

COMPILER = "cc"
PROGRAM = "from dikkat.native import library; print(library.library() is not None, library.why_absent(), sep='|')"


def ask(**environment: str) -> tuple[bool, str]:
    """In a process of its own: whether there are kernels, and why not."""
    merged = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=merged, capture_output=True, text=True, check=True)
    there, _, why = done.stdout.strip().partition("|")
    return there == "True", why


def shim(folder: Path, script: str) -> str:
    """A compiler of our own making."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_every_source_is_compiled_once_and_the_library_then_read_from_the_cache(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    compiler = shim(tmp_path, f'[ "$1" = --version ] || echo called >> {log}\nexec {COMPILER} "$@"')
    answers = [ask(CC=compiler, XDG_CACHE_HOME=str(tmp_path / "cache")) for _ in range(2)]
    if not answers[0][0]:
        pytest.skip(f"this machine cannot compile the kernels: {answers[0][1]}")
    assert answers == [(True, ""), (True, "")]
    assert log.read_text(encoding="utf-8") == "called\n" * (len(library.SOURCES) + 1), "every source, and linking"
    assert [path.suffix for path in (tmp_path / "cache/dikkat").iterdir()] == [".so"]


def test_no_compiler() -> None:
    assert ask(CC="no-such-compiler") == (False, "no C compiler")


def test_switched_off() -> None:
    assert ask(DIKKAT_NATIVE="0") == (False, "DIKKAT_NATIVE=0")


def test_a_compiler_that_fails_is_named_with_its_first_line(tmp_path: Path) -> None:
    compiler = shim(tmp_path, '[ "$1" = --version ] && exit 0\necho "cannot do that\nsecond line" >&2; exit 1')
    there, why = ask(CC=compiler, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (there, why) == (False, f"{compiler} failed: cannot do that")
    assert list((tmp_path / "cache/dikkat").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    there, why = ask(XDG_CACHE_HOME=str(blocked))
    assert not there
    assert why
