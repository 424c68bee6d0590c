"""The parts of `.ci/nightly` are together all files with nightly tests, and no file is in two of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = 10
STAND_IN = """#!/bin/sh
case "$*" in
*--collect-only*) cat "$COLLECTED" ;;
*) echo "1 passed"; for file; do :; done; echo "$file" >>"$RAN" ;;
esac
"""
"""In the place of Python: it collects what it is given, and writes down the file that it is to test."""


def ran(folder: Path, collected: str, *arguments: str) -> list[str]:
    """Return the files that `.ci/nightly` would test."""
    python, names, result = folder / "python", folder / "collected", folder / "ran"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    names.write_text(collected)
    result.write_text("")
    variables = {"PYTHON": str(python), "COLLECTED": str(names), "RAN": str(result), "FOLDER": str(folder / "logs")}
    done = subprocess.run(
        [ROOT / ".ci" / "nightly", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return result.read_text().splitlines()


def check(folder: Path, collected: str) -> None:
    files = sorted({line.partition("::")[0] for line in collected.splitlines() if "::" in line})
    parts = [ran(folder, collected, "--part", str(part)) for part in range(PARTS)]
    assert sorted(file for part in parts for file in part) == files
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert ran(folder, collected, "--today") in parts


def test_every_file_is_in_one_part(tmp_path: Path) -> None:
    names = [f"tests/unit/test_{number}.py::test_{case}" for number in range(23) for case in range(2)]
    check(tmp_path, "\n".join([*names, "", "46/50 tests collected (4 deselected) in 1.00s"]) + "\n")


@pytest.mark.nightly
def test_every_nightly_test_is_in_one_part(tmp_path: Path) -> None:
    """The names are those that a marker finds one by one, without the option that `.ci/nightly` collects with."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m"]
    collected, plain = (
        subprocess.run([*command, which], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for which in ("nightly", "not nightly")
    )
    check(tmp_path, collected)
    every = subprocess.run([*command, ""], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    by_night, by_day, all_ids = (
        {line for line in text.splitlines() if "::" in line} for text in (collected, plain, every)
    )
    assert by_night | by_day == all_ids
    assert not by_night & by_day
